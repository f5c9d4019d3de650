"""A build of HEAD that fails is one error: its own fix, or the check that names its cause."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from revisions.repository import Repository

from flashbench.preflight import Finding, run
from flashbench.preflight.build import next_step
from flashbench.preflight.build.head_build import clean_build
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.source.tree import read_tree

_BINDINGS = """\
#include <Python.h>
namespace fast {{ void fp16(float*); void bf16(float*); }}
static PyObject* go(PyObject*, PyObject*) {{ fast::fp16(0); fast::bf16(0); Py_RETURN_NONE; }}
static PyMethodDef methods[] = {{{{"go", go, METH_NOARGS, ""}}, {{nullptr, nullptr, 0, nullptr}}}};
static PyModuleDef module = {{PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods}};
PyMODINIT_FUNC PyInit_{}() {{ return PyModule_Create(&module); }}
"""
# What is built stands in a file that the source level does not read: the name, then the units.
_SETUP = """\
from setuptools import Extension, setup

name, *units = open("built.txt").read().split()
setup(packages=["fast"], name="fast", ext_modules=[Extension(f"fast.{name}", units)])
"""
_CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(fast LANGUAGES CXX)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
file(STRINGS built.txt units)
list(POP_FRONT units name)
Python_add_library(${name} MODULE WITH_SOABI ${units})
set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_SOURCE_DIR}/fast)
"""
_WITH_SETUP = '["python", "setup.py", "build_ext", "--inplace"]'
_WITH_CMAKE = '["sh", "-c", "cmake -S . -B build && cmake --build build"]'


def _project(root: Path, by: str, *, unit: str = "bf16", name: str = "_C", init: str = "_C") -> Any:
    """A module of three units, built by setuptools or by CMake."""
    project = Repository(root)
    build = _WITH_CMAKE if by == "cmake" else _WITH_SETUP
    project.write(
        "pyproject.toml", f'[tool.flashbench.project]\ncallable = "fast.api:f"\nbuild = {build}\n'
    )
    script, text = ("CMakeLists.txt", _CMAKE) if by == "cmake" else ("setup.py", _SETUP)
    project.write(script, text)
    units = [f"csrc/{one}.cpp" for one in ("bindings", "fp16", unit)]
    project.write("built.txt", "\n".join([name, *units]))
    project.write("fast/__init__.py", "")
    project.write("fast/api.py", "from fast import _C\ndef f(q, k, v, **others): return q\n")
    project.write("csrc/bindings.cpp", _BINDINGS.format(init))
    for dtype in ("fp16", "bf16"):
        project.write(f"csrc/{dtype}.cpp", f"namespace fast {{ void {dtype}(float*) {{}} }}\n")
    project.write("csrc/other.cpp", "")
    project.commit("A kernel")
    return project


@pytest.mark.usefixtures("without_torch")
@pytest.mark.parametrize(
    ("by", "defect", "found", "fix"),
    [
        (
            "setuptools",
            {"unit": "other"},
            "undefined symbol: fast::bf16(float*); csrc/bf16.cpp should hold it",
            "add csrc/bf16.cpp",
        ),
        (
            "cmake",
            {"name": "science"},
            "wrong module name: expected fast._C, got fast/science",
            "git grep -n science  # name the module fast._C there",
        ),
        (
            "setuptools",
            {"init": "science"},
            "wrong module name: ",
            "write PYBIND11_MODULE(_C, m)",
        ),
    ],
)
def test_module_that_is_built_and_does_not_load(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: str,
    defect: dict[str, str],
    found: str,
    fix: str,
) -> None:
    """The symbol with the unit that should hold it, the name of the module: one error each."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    report = run(_project(tmp_path / "fast", by, **defect).root, "build", timeout=60)
    (error,) = report.errors
    assert (error.check, found in error.found) == ("clean build", True), error
    assert fix in error.fix


@pytest.fixture
def subject(tmp_path: Path) -> BuildSubject:
    project = _project(tmp_path / "fast", "setuptools")
    project.git("tag", "v1")
    project.write("csrc/other.cpp", "int other;\n")
    project.commit("Change a unit")
    return BuildSubject(read_tree(project.root), 60)


def test_first_commit_that_does_not_build(tmp_path: Path) -> None:
    """Nothing earlier can be bisected; without a tag, all of the history is."""
    project = _project(tmp_path / "fast", "setuptools")
    first = project.git("rev-parse", "--short", "HEAD")
    subject = BuildSubject(read_tree(project.root), 60)
    built = _built("compile error", "a.cu(3): error: x")
    assert next_step.fix(subject, built).startswith("flashbench build HEAD  # ")
    project.write("csrc/other.cpp", "int other;\n")
    project.commit("Change a unit")
    assert next_step.fix(subject, built).endswith(f"bisect --for build --good {first}")


def _built(status: str, reason: str, *, kept: bool = True) -> Any:
    return SimpleNamespace(
        status=status,
        reason=reason,
        kept=kept,
        build=SimpleNamespace(status=status),
        revision=SimpleNamespace(commit="HEAD"),
    )


@pytest.mark.parametrize(
    ("status", "reason", "fix"),
    [
        (
            "missing header",
            "a.cu:1:10: fatal error: t/b.h: No such file",
            "apt-file search t/b.h",
        ),
        (
            "missing header",
            'a.cu(1): cannot open source file "b.cuh"',
            "apt-file search b.cuh",
        ),
        ("import error", "no function fast.api.g", "callable = a function of fast.api"),
        ("import error", "No module named 'fast.api'", "pyproject.toml  # correct `callable`"),
        ("import error", "No module named 'fast.tables'", "git grep -n fast.tables"),
        ("import error", "No module named 'einops.layers'", "python -m pip install einops"),
        ("compile error", "nvcc fatal : Unsupported gpu architecture 'compute_70'", "remove 70 "),
        ("build error", "RuntimeError: Ninja is required to load C++ extensions", "install ninja"),
        ("build error", 'no program corresponding to "Unix Makefiles"', "apt-get install make"),
        ("build error", "ValueError: Unknown CUDA arch (Common)", "unset TORCH_CUDA_ARCH_LIST"),
        ("compile error", "a.cu(3): error: x", "flashbench bisect --for build --good v1"),
        ("timeout", "the build took longer than 9 s", "preflight --level build --timeout 1h"),
    ],
)
def test_fix_of_a_failed_build(subject: BuildSubject, status: str, reason: str, fix: str) -> None:
    """The command or sentence that follows from the reason."""
    assert fix in next_step.fix(subject, _built(status, reason))


def test_fix_of_an_import_that_hangs(subject: BuildSubject) -> None:
    """A longer limit does not help what was built and does not load."""
    built = _built("timeout", "loading took longer than 20 s")
    built.build.status = "built"
    assert "faulthandler" in next_step.fix(subject, built)


@pytest.mark.parametrize(
    ("tool", "fix"),
    [("cmake", "pip install cmake"), ("make", "apt-get install make"), ("bazel", "install bazel")],
)
def test_fix_of_a_missing_tool(subject: BuildSubject, tool: str, fix: str) -> None:
    """How it is installed, where that is known."""
    built = _built(
        "build error", f"for lack of a tool on PATH: sh: 1: {tool}: not found", kept=False
    )
    assert fix in next_step.fix(subject, built)


def test_architecture_of_the_environment(
    subject: BuildSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is unset where it was set."""
    built = _built("compile error", "nvcc fatal : Unsupported gpu architecture 'compute_70'")
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "7.0;9.0")
    assert next_step.fix(subject, built) == "unset TORCH_CUDA_ARCH_LIST"


@pytest.mark.parametrize(
    ("status", "named", "cause"),
    [
        ("missing header", "headers in git", "headers in git"),
        ("undefined symbol", "explicit instantiations", "explicit instantiations"),
        ("wrong module name", "module name", "module name"),
        ("undefined symbol", "module name", ""),
        ("missing header", "nvcc", "nvcc"),  # cuda_runtime.h
    ],
)
def test_cause_that_is_named(status: str, named: str, cause: str) -> None:
    """A check that found an error explains a build that fails in its way, and in no other."""
    reason = "a.cpp:1:10: fatal error: cuda_runtime.h: No such file"
    assert next_step.cause(_built(status, reason), {named}) == cause


def test_header_that_git_lacks_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source level names it; that HEAD does not build follows from it."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    project = _project(tmp_path / "fast", "setuptools")
    project.write("csrc/fp16.cpp", '#include "gone.h"\nnamespace fast { void fp16(float*) {} }\n')
    project.commit("Use a header that is not there")
    report = run(project.root, "build", timeout=60)
    found: list[Finding] = report.errors
    assert [one.check for one in found] == ["missing headers"]
    (reason,) = (done.skipped for done in report.checks if done.name == "clean build")
    assert reason.startswith("HEAD does not build here (missing header: csrc/fp16.cpp:1:10: ")
    assert reason.endswith("): fix missing headers first")


@pytest.mark.parametrize(
    ("commands", "found", "fix"),
    [
        ([["rm", "-rf", ".git"]], "there is no HEAD to build: ", "git init && git add ."),
        (
            [["rm", "-rf", ".git"], ["git", "init", "-q"]],
            "nothing is committed, so that there is no HEAD to build",
            "git commit",
        ),
    ],
)
def test_nothing_to_export(tmp_path: Path, commands: list[list[str]], found: str, fix: str) -> None:
    """The build level needs a commit: without one it says what to do."""
    project = _project(tmp_path / "fast", "setuptools")
    for command in commands:
        subprocess.run(command, cwd=project.root, check=True)
    subject = BuildSubject(read_tree(project.root), 60.0)
    (finding,) = clean_build(subject)
    assert isinstance(finding, Finding)
    assert finding.found.startswith(found)
    assert finding.fix.startswith(fix)
