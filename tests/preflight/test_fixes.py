"""The fix of a finding fixes it: run as printed in the planted repository, nothing is found."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from preflight.kernel_project import kernel_project
from preflight.planted import DEFECTS
from revisions.repository import IDENTITY, Repository

from flashbench.preflight import Finding, run

AUTHOR = {"GIT_CONFIG_COUNT": "2"}
for number, pair in enumerate(IDENTITY[1::2]):
    key, value = pair.split("=", 1)
    AUTHOR |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}


def _found(root: Path) -> list[Finding]:
    report = run(root, "source")
    return [*report.errors, *report.warnings]


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_command_that_is_proposed_fixes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Repository], None]
) -> None:
    """One that searches prints something; any other leaves nothing to find, also in a clone."""
    for name, value in AUTHOR.items():
        monkeypatch.setenv(name, value)
    project = kernel_project(tmp_path / "flash")
    plant(project)
    (finding,) = _found(project.root)
    if not finding.fix.startswith(("git ", "cp ")):
        assert "git log" not in finding.fix
        return
    command = ["sh", "-c", finding.fix]
    done = subprocess.run(command, cwd=project.root, capture_output=True)
    assert done.returncode == 0, done.stderr
    if finding.fix.startswith("git log"):
        assert done.stdout
        return
    assert [(one.found, one.fix) for one in _found(project.root)] == []
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(project.root), str(clone)], check=True)
    assert [one.found for one in _found(clone)] == []
