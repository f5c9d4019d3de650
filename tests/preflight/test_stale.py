"""A library in the working tree that is not of its sources: named, and rebuilt with --fix alone."""

import os
import sysconfig
from pathlib import Path

import pytest
from revisions.repository import Repository

from flashbench.preflight import PreflightReport, build, run

_UNIT, _LIBRARY = "csrc/kernel.cpp", "flash/kernel.so"
_COMPILE = "g++ -shared -fPIC csrc/kernel.cpp -o flash/kernel.so"


def _project(root: Path, command: str) -> Repository:
    project = Repository(root)
    project.write(".gitignore", "*.so\n")
    project.write(
        "pyproject.toml",
        "[build-system]\nrequires = []\n[tool.flashbench.project]\n"
        f'callable = "flash:f"\nsources = ["csrc"]\nbuild = ["sh", "-c", "{command}"]\n',
    )
    project.write("flash/__init__.py", "def f(q, k, v, **others): return q\n")
    project.write(_UNIT, 'extern "C" int answer() { return 42; }\n')
    project.commit("A library")
    (root / _LIBRARY).write_bytes(b"old")
    os.utime(root / _LIBRARY, (1, 1))
    return project


@pytest.fixture(autouse=True)
def _this_check_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else of its level: neither pip is asked, nor HEAD built."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    (stale,) = (check for check in build.CHECKS if check.name == "stale library")
    monkeypatch.setattr(build, "CHECKS", (stale,))


def _checked(project: Repository, *, fix: bool) -> tuple[list[str], PreflightReport]:
    report = run(project.root, "build", fix=fix, timeout=120)
    (done,) = (one for one in report.checks if one.name == "stale library")
    return [f"{one.where} {one.found}: {one.fix}" for one in done.findings], report


def test_is_rebuilt_by_the_project_s_own_build(tmp_path: Path) -> None:
    """Without --fix nothing is built in the working tree; with it, once, and it is looked again."""
    project = _project(tmp_path / "flash", f"{_COMPILE} && echo built >> .built")
    found, report = _checked(project, fix=False)
    fix = f"sh -c '{_COMPILE} && echo built >> .built'"
    assert found == [f"{_LIBRARY} is older than {_UNIT}: {fix}"]
    assert report.fixed == []
    assert (project.root / _LIBRARY).read_bytes() == b"old"
    os.utime(project.root / _UNIT, (2, 2))
    found, report = _checked(project, fix=True)
    assert found == []
    (line,) = report.fixed
    assert line.startswith(f"stale library: ran `{fix}` in ")
    assert line.endswith(" s")
    assert (project.root / ".built").read_text() == "built\n"


def test_build_that_does_not_help(tmp_path: Path) -> None:
    """A build that takes the library for new is reported as such; the finding stays."""
    found, report = _checked(_project(tmp_path / "flash", "true"), fix=True)
    assert len(found) == 1
    (line,) = report.fixed
    assert "which left kernel.so as it was: remove it first" in line


def test_build_that_fails(tmp_path: Path) -> None:
    """Nothing was fixed, and that is an error beside the finding, which stays."""
    command = "echo csrc/kernel.cpp:1:1: error: expected a type; exit 1"
    found, report = _checked(_project(tmp_path / "flash", command), fix=True)
    assert len(found) == 2
    assert report.fixed == []
    (error,) = (one for one in report.errors if one.where == "--fix")
    assert "failed: compile error: " in error.found


def test_without_settings_nobody_knows_how_to_build(tmp_path: Path) -> None:
    """Without a table in the project, the library is named, and --fix leaves it alone."""
    project = _project(tmp_path / "flash", "true")
    project.write("pyproject.toml", "[build-system]\nrequires = []\n")
    found, report = _checked(project, fix=True)
    assert len(found) == 1
    assert report.fixed == []


def test_what_is_not_compiled_in_makes_nothing_old(tmp_path: Path) -> None:
    """A unit outside of `sources`, and a library of another Python, are left alone."""
    project = _project(tmp_path / "flash", "true")
    (project.root / _LIBRARY).rename(project.root / "flash/kernel.cpython-27-other.so")
    (project.root / "flash/other.so").write_bytes(b"")
    project.write("tests/check.cpp", "int main() {}\n")
    newer = (project.root / "flash/other.so").stat().st_mtime + 60
    os.utime(project.root / "tests/check.cpp", (newer, newer))
    assert _checked(project, fix=False)[0] == []


_OWN_SETUP = """\
import os, subprocess, sys, sysconfig
sys.path.insert(0, "flashbench")
import source_hash
from pathlib import Path
hashed = source_hash.of_tree(Path.cwd())
place = Path("flashbench")
if "--build-lib" in sys.argv:
    place = Path(sys.argv[sys.argv.index("--build-lib") + 1]) / "flashbench"
    place.mkdir(parents=True)
library = place / ("_C" + sysconfig.get_config_var("EXT_SUFFIX"))
include = sysconfig.get_paths()["include"]
subprocess.run(["g++", "-shared", "-fPIC", f'-DHASH="{hashed}"', f"-I{include}",
                "csrc/bindings.cpp", "-o", library], check=True)
"""
_OWN_BINDINGS = """\
#include <Python.h>
static PyObject* build_info(PyObject*, PyObject*) {
    return Py_BuildValue("{s:s}", "source_hash", HASH);
}
static PyMethodDef methods[] = {{"build_info", build_info, METH_NOARGS, ""}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
"""


def test_our_own_library_states_its_sources(tmp_path: Path) -> None:
    """By hash, not by time: after a checkout it is as good as before, after an edit it is not."""
    import flashbench.source_hash

    project = Repository(tmp_path / "flashbench")
    project.write(".gitignore", "*.so\n")
    project.write("pyproject.toml", '[project]\nname = "flashbench"\n')
    project.write("setup.py", _OWN_SETUP)
    project.write("flashbench/__init__.py", "def attention(q, k, v): return q\n")
    project.write("flashbench/source_hash.py", Path(flashbench.source_hash.__file__).read_text())
    project.write("csrc/bindings.cpp", _OWN_BINDINGS)
    project.commit("A library of our name")
    library = f"flashbench/_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    (project.root / library).write_bytes(b"no library")
    found, report = _checked(project, fix=True)
    assert found == []
    assert report.fixed[0].startswith("stale library: ran `python setup.py build_ext --inplace`")
    os.utime(project.root / library, (1, 1))
    assert _checked(project, fix=False)[0] == []
    project.edit("csrc/bindings.cpp", '""', '"About this build."')
    (line,) = _checked(project, fix=False)[0]
    assert line.startswith(f"{library} was built from other sources than those here: ")
