"""`flashbench preflight` as a user runs it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from preflight.kernel_project import kernel_project
from revisions.repository import Repository


def _preflight(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flashbench", "preflight", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def _broken(root: Path) -> Repository:
    project = kernel_project(root)
    project.git("rm", "-q", "csrc/config.h")
    project.commit("Remove a header that is still included")
    return project


def test_healthy_project_passes(tmp_path: Path) -> None:
    """Exit 0, and the checks that were made."""
    done = _preflight(kernel_project(tmp_path / "flash").root)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("preflight of flash, level source: nothing found")
    assert "ok: project settings, repository, submodules" in done.stdout


def test_finding_has_place_reason_and_fix(tmp_path: Path) -> None:
    """Exit 1; the fix is a command on a line of its own."""
    done = _preflight(_broken(tmp_path / "flash").root)
    assert done.returncode == 1
    assert "ERROR  missing headers: csrc/forward.h:2\n" in done.stdout
    assert re.search(r"(?m)^  fix: git checkout \w+\^ -- csrc/config\.h && git", done.stdout)


def test_repository_inside_another_project(tmp_path: Path) -> None:
    """It is looked at itself, though only the outer one has a pyproject.toml."""
    outer = _broken(tmp_path / "outer")
    inner = Repository(outer.root / "kernels")
    inner.write("setup.py", "")
    inner.write("csrc/forward.cu", '#include "tile.h"\n')
    inner.commit("A kernel without its header")
    done = _preflight(inner.root / "csrc")
    assert done.stdout.startswith("preflight of kernels, level source: 1 error")
    assert "ERROR  missing headers: csrc/forward.cu:1\n" in done.stdout
    assert "not checked: project settings: no pyproject.toml" in done.stdout


def test_json(tmp_path: Path) -> None:
    """The same for machines: every check with its status, every finding with its fix."""
    done = _preflight(_broken(tmp_path / "flash").root, "--format", "json")
    document = json.loads(done.stdout)
    assert (document["level"], document["errors"], document["warnings"]) == ("source", 1, 0)
    statuses = {check["check"]: check["status"] for check in document["checks"]}
    assert statuses.pop("missing headers") == "found"
    assert set(statuses.values()) == {"ok"}


def test_broken_settings_are_a_finding(tmp_path: Path) -> None:
    """Merge markers in pyproject.toml: named, and the other checks go on."""
    project = _broken(tmp_path / "flash")
    settings = project.root / "pyproject.toml"
    settings.write_text(f"<<<<<<< HEAD\n{settings.read_text()}>>>>>>> other\n")
    done = _preflight(project.root)
    assert done.returncode == 1, done.stderr
    assert "ERROR  project settings: pyproject.toml" in done.stdout
    assert "ERROR  missing headers: csrc/forward.h:2\n" in done.stdout


def test_from_a_folder_below(tmp_path: Path) -> None:
    """The project is found from a folder below it."""
    done = _preflight(_broken(tmp_path / "flash").root / "csrc")
    assert done.stdout.startswith("preflight of flash, level source: 1 error ")


def test_no_project(tmp_path: Path) -> None:
    """Outside of a project: one line, exit 2, and no walk through the machine's disks."""
    done = _preflight(tmp_path)
    assert done.returncode == 2
    assert "no project here or above" in done.stderr


def test_needs_neither_torch_nor_a_build(tmp_path: Path) -> None:
    """The source level works where torch, numpy, scipy and our extension cannot be imported."""
    code = (
        "import sys\n"
        "for name in ('torch', 'numpy', 'scipy', 'flashbench._C'): sys.modules[name] = None\n"
        "from flashbench.cli import main; main(['preflight'])"
    )
    root = kernel_project(tmp_path / "flash").root
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_own_sources() -> None:
    """Our own sources have nothing to be found."""
    done = _preflight(Path(__file__).parents[2])
    assert done.stdout.splitlines()[0].count("nothing found") == 1, done.stdout


@pytest.mark.parametrize("installed", [None, click])
def test_python_alone(tmp_path: Path, installed: ModuleType | None) -> None:
    """Without packages, or with click alone: the source level, and one line on what the rest
    lacks."""
    project = _broken(tmp_path / "flash")
    path = [str(Path(__file__).parents[2])]
    if installed is not None and installed.__file__:
        (tmp_path / "packages").mkdir()
        (tmp_path / "packages/click").symlink_to(Path(installed.__file__).parent)
        path.append(str(tmp_path / "packages"))
    bare = [sys.executable, "-S", "-m", "flashbench"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}

    def flashbench(*arguments: str, **streams: int) -> subprocess.CompletedProcess[str]:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        return subprocess.run(
            [*bare, *arguments], cwd=project.root, env=environment, text=True, **streams
        )

    done = flashbench("preflight", "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout)["errors"] == 1
    assert "ERROR  missing headers: csrc/forward.h:2\n" in flashbench("preflight").stdout
    reader, writer = os.pipe()
    os.close(reader)
    done = flashbench("preflight", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")
    done = flashbench("preflight", "--levle", "build")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("flashbench: preflight: ")
    assert done.stderr.count("\n") == 1
    for arguments in (["run"], ["preflight", "--level", "build"]):
        done = flashbench(*arguments)
        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.startswith("flashbench: ")
        assert "is not installed" in done.stderr
        assert (
            f"{sys.executable} -m pip install {'msgspec' if installed else 'click'}" in done.stderr
        )
        assert done.stderr.count("\n") == 1
