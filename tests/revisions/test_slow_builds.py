"""Slow builds print progress, and every building command can limit them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from revisions.repository import Repository

from flashbench.errors import Exit
from flashbench.revisions import Revision, read, resolve
from flashbench.revisions.announced import build_one
from flashbench.revisions.preparer import Preparer

pytestmark = pytest.mark.slow

SETTINGS = """
[tool.flashbench.project]
callable = "kernel:attention"
build = ["python", "build.py"]
path = "."
sources = ["build.py"]
"""


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Two commits whose builds end in hours."""
    repository = Repository(tmp_path_factory.mktemp("hanging") / "project")
    repository.write("pyproject.toml", SETTINGS)
    repository.write("kernel.py", "attention = print\n")
    for hours in (1, 2):
        repository.write(
            "build.py",
            f"import time\nprint('[{hours}/2] wait\\nwarning: it is long', flush=True)\n"
            f"time.sleep({3600 * hours})\n",
        )
        repository.commit(f"Wait {hours} h")
    return repository


def test_a_long_build_is_told_of(
    hanging: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing gets ready, running builds are reported, but not waiting ones."""
    monkeypatch.setattr("flashbench.revisions.preparer._SILENCE_SECONDS", 0.2)
    told: list[Sequence[Revision]] = []
    asked = [resolve(hanging.root, text) for text in ("HEAD~1", "HEAD")]
    project = read(hanging.root)
    with Preparer(project, tmp_path, jobs=1, timeout=1, still=told.append) as preparer:
        built = preparer.prepare(asked, "build")
    assert [one.status for one in built] == ["timeout", "timeout"]
    assert [asked[0]] in told
    assert [asked[1]] in told
    assert all(len(revisions) == 1 for revisions in told)


def test_steps_of_a_long_build_are_told(
    hanging: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and then one line says for how long a build has run, and its latest step."""
    monkeypatch.setattr("flashbench.builds.running._REPORT_SECONDS", 0.25)
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path))
    told: list[str] = []
    project, head = read(hanging.root), resolve(hanging.root, "HEAD")
    assert build_one(project, head, "A", told.append, timeout=0.6).status == "timeout"
    assert told[-1] == "A: building, 1 s: [2/2] wait"


@pytest.mark.parametrize(
    "arguments", [["backfill", "HEAD~1", "HEAD"], ["compare", "HEAD~1", "HEAD"]]
)
def test_builds_can_be_bounded(hanging: Repository, tmp_path: Path, arguments: list[str]) -> None:
    """--build-timeout ends a build that hangs, wherever commits are built to be measured."""
    environment = os.environ | {
        "FLASHBENCH_CACHE": str(tmp_path),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "flashbench", *arguments, "--build-timeout", "1s"],
        cwd=hanging.root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == Exit.NOT_MEASURED
    assert "timeout: the build took longer than 1 s" in done.stderr.splitlines()[-1]
