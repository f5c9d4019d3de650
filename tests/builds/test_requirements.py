"""What builds need from the Python environment: said before the first build, with the command."""

import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from revisions.repository import Repository

from flashbench.builds.recipe import OwnExtension
from flashbench.builds.requirements import missing

ROOT = Path(__file__).parents[2]
PYPROJECT = """
[build-system]
requires = ["setuptools>=61", "flashbench-nosuch>=2.0"]

[tool.flashbench.project]
callable = "toy:f"
build = {build}
"""


def test_what_is_installed_is_not_missing() -> None:
    """Any version will do, but none below a minimum; markers count; a pin is no minimum."""
    assert missing(["pytest", "pytest>=1", "pytest==1.0", "pytest<1"]) == []
    assert missing(["pytest>=99", "nosuch-a>=1", "nosuch-b; python_version < '3'"]) == [
        "pytest>=99",
        "nosuch-a>=1",
    ]
    assert missing(["setuptools>=61", "not a requirement"]) == []


def test_programs_of_the_machine_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cmake and ninja are found on PATH where they are no Python packages."""
    monkeypatch.setattr("flashbench.builds.toolchain.installed", lambda name: "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing(["cmake>=3.24", "ninja"]) == ["cmake>=3.24", "ninja"]
    _program(tmp_path / "cmake", "cmake version 3.24.1\\n\\nCMake suite 9.9")
    _program(tmp_path / "ninja", "1.11.1.git.kitware")
    wanted = ["cmake>=3.24", "ninja", "ninja~=1.11.1", "cmake==9", "pybind11"]
    assert missing(wanted) == ["pybind11"]


def test_programs_of_the_machine_may_be_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cmake or ninja on PATH that is below the minimum, or does not run, is missing; one that is
    replaced is asked again."""
    monkeypatch.setattr("flashbench.builds.toolchain.installed", lambda name: "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    _program(tmp_path / "cmake", "cmake version 3.22.1")
    _program(tmp_path / "ninja", "1.10.2")
    wanted = ["cmake>=3.24", "ninja>=1.11", "ninja"]
    assert missing(wanted) == ["cmake>=3.24", "ninja>=1.11"]
    _program(tmp_path / "cmake", "cmake version 3.30.0")
    (tmp_path / "ninja").write_text("#!/bin/sh\nexit 1\n")
    assert missing(wanted) == ["ninja>=1.11", "ninja"]


def _program(path: Path, version: str) -> None:
    path.write_text(f"#!/bin/sh\nprintf '{version}\\n'\n")
    path.chmod(0o755)


def test_our_own_requirements_are_those_of_pip() -> None:
    """The list of the recipe is that of pyproject.toml."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert list(OwnExtension.requires) == stated


def _flashbench(root: Path, python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-m", "flashbench", *arguments],
        cwd=root,
        env=os.environ | {"FLASHBENCH_CACHE": str(root.parent / "cache")},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("build", "code"),
    [('["python", "-c", "pass"]', 4), ('["sh", "-c", "true"]', 0), ("[]", 0)],
)
def test_a_project_says_what_its_build_needs(tmp_path: Path, build: str, code: int) -> None:
    """[build-system] requires of a build by Python is one line before the first of many builds;
    nothing is kept, so that the same command builds after the install."""
    repository = Repository(tmp_path / "repository")
    for text in "123":
        repository.write("pyproject.toml", PYPROJECT.format(build=build))
        repository.write("toy.py", f"f = {text}\n")
        repository.commit(text)
    arguments = ("build", "HEAD~2..HEAD", "-j", "2", "--for", "build")
    done = _flashbench(repository.root, sys.executable, *arguments)
    assert done.returncode == code, done.stderr
    if code:
        line = "a build needs flashbench-nosuch>=2.0, which this Python lacks; install with: "
        line += f"{sys.executable} -m pip install 'flashbench-nosuch>=2.0'"
        assert done.stderr == f"flashbench: {line}\n"
        repository.write(
            "pyproject.toml", PYPROJECT.format(build=build).replace("-nosuch>=2.0", "")
        )
        assert _flashbench(repository.root, sys.executable, *arguments).returncode == 0


@pytest.mark.slow
def test_an_environment_without_build_tools(tmp_path: Path) -> None:
    """After a plain install no revision of flashbench builds: `build` and `compare` say which
    packages are missing, and exit 4."""
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    # All of this environment but what builds need; the package itself.
    for entry in Path(pytest.__file__).parents[1].iterdir():
        if not entry.name.lower().startswith(("pybind11", "cmake", "ninja", "setuptools", "__ed")):
            (site / entry.name).symlink_to(entry)
    (site / "package.pth").write_text(f"{ROOT}\n")
    repository = Repository(tmp_path / "repository")
    repository.write("pyproject.toml", (ROOT / "pyproject.toml").read_text())
    repository.write("setup.py", "raise SystemExit('never run')\n")
    for text in "12":
        repository.write("csrc/kernel.cpp", text)
        repository.commit(text)
    python = str(tmp_path / "venv" / "bin" / "python")
    for arguments in (["build", "HEAD"], ["compare", "HEAD~1"]):
        done = _flashbench(repository.root, python, *arguments)
        assert done.returncode == 4, done.stderr
        last = done.stderr.splitlines()[-1]
        assert last.startswith("flashbench: a build needs setuptools>=77, pybind11")
        assert f"{python} -m pip install 'setuptools>=77' 'pybind11>=3.0'" in last
        assert "never run" not in done.stderr
