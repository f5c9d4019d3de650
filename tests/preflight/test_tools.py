"""The build level of preflight: tools that are missing or of another Python, and HEAD's build."""

import importlib.util
import os
import stat
import sys
from pathlib import Path

import pytest
from preflight.kernel_project import kernel_project
from revisions.repository import Repository

from flashbench.preflight import PreflightReport, run
from flashbench.preflight.build import architecture_list, resources, tools
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck
from flashbench.preflight.source.tree import read_tree


def _program(folder: Path, name: str, prints: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def subject(tmp_path: Path) -> BuildSubject:
    return BuildSubject(read_tree(kernel_project(tmp_path / "flash").root), 60)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with no program on it, and no CUDA in the environment; the folder on it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    lists = ("FLASHBENCH_CUDA_ARCHS", "TORCH_CUDA_ARCH_LIST", "CUDAARCHS")
    for name in ("CXX", "CUDACXX", "CUDA_HOME", "CUDA_PATH", "CPATH", *lists):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_no_compiler(subject: BuildSubject, bare: Path) -> None:
    """A machine without a C++ compiler, and the same with one."""
    (finding,) = tools.compiler(subject)
    assert finding.found == "c++, g++, clang++ not found"
    _program(bare, "g++")
    assert list(tools.compiler(subject)) == []


def test_python_without_headers(subject: BuildSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """python3-dev is missing."""
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": "/nowhere"})
    (finding,) = tools.python_headers(subject)
    assert finding.fix.startswith("apt-get install python3.")


def test_nvcc_that_is_not_on_path_is_put_there(
    subject: BuildSubject, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA is installed, its folder is not on PATH: named, and repaired for this process alone."""
    cuda = _program(tmp_path / "cuda" / "bin", "nvcc").parent
    monkeypatch.setenv("CUDA_HOME", str(cuda.parent))
    (finding,) = tools.nvcc(subject)
    assert finding.fix == f'export PATH="{cuda}:$PATH"'
    assert finding.repair is not None
    assert finding.repair() == f"put {cuda} on the PATH of this process"
    assert list(tools.nvcc(subject)) == []


def test_list_of_architectures_without_this_chip(
    subject: BuildSubject, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list for another machine is reported and replaced; without a GPU it is not judged."""
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "7.5;8.6")
    with pytest.raises(CannotCheck, match="no GPU"):
        list(architecture_list.architecture_list(subject))
    _program(bare, "nvidia-smi", "9.0")
    monkeypatch.setenv("PATH", f"{bare}:/usr/bin:/bin")
    (finding,) = architecture_list.architecture_list(subject)
    assert finding.found == "is '7.5;8.6', without the sm_90 of this machine"
    assert finding.repair is not None
    finding.repair()
    assert os.environ["TORCH_CUDA_ARCH_LIST"] == "9.0"
    assert list(architecture_list.architecture_list(subject)) == []
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0+PTX")
    assert list(architecture_list.architecture_list(subject)) == []
    for name in ("FLASHBENCH_CUDA_ARCHS", "CUDAARCHS"):  # which setuptools does not read
        monkeypatch.setenv(name, "75")
    assert list(architecture_list.architecture_list(subject)) == []
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "Common")
    with pytest.raises(CannotCheck, match="TORCH_CUDA_ARCH_LIST=Common"):
        list(architecture_list.architecture_list(subject))


def test_pip_of_another_python(
    subject: BuildSubject, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This Python has no pip3, and builds would find that of another; on PATH alone it is harmless,
    since builds look beside this Python first."""
    (bare / "others").mkdir()
    _program(
        bare / "others", "pip3", "pip 20.0.2 from /usr/lib/python3/dist-packages/pip (python 3.8)"
    )
    monkeypatch.setenv("PATH", f"{bare}/others:/usr/bin:/bin")
    monkeypatch.setattr("sys.executable", str(_program(bare, "python")))
    (finding,) = tools.pip(subject)
    assert "for Python 3.8 in /usr/lib/python3/dist-packages" in finding.found
    assert finding.fix == f"{bare}/python -m pip install --force-reinstall pip"
    mine = importlib.util.find_spec("pip")
    assert mine is not None
    assert mine.origin is not None
    _program(bare, "pip3", f"pip 25.0 from {Path(mine.origin).parent} (python 3.13)")
    assert list(tools.pip(subject)) == []


def test_missing_modules(subject: BuildSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither pip nor torch in this Python."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert [one.fix for one in tools.pip(subject)] == [f"{sys.executable} -m ensurepip --upgrade"]
    assert [one.found for one in tools.torch(subject)] == ["torch is not installed"]


def test_torch_without_cuda(subject: BuildSubject) -> None:
    """The build compiles CUDA against a torch that has none."""
    (finding,) = tools.torch(subject)
    assert "torch is built without CUDA" in finding.found


def test_torch_that_the_build_does_not_compile_against(subject: BuildSubject) -> None:
    """A file that only speaks of torch's extensions is no build against torch."""
    setup = subject.tree.root / "setup.py"
    text = setup.read_text()
    assert "from torch.utils.cpp_extension import CUDAExtension" in text
    setup.write_text(
        '"""Unlike torch.utils.cpp_extension."""\nfrom setuptools import setup\nsetup()\n'
    )
    (subject.tree.root / "notes.py").write_text("import torch.utils.cpp_extension\n")
    assert list(tools.torch(subject)) == []


def test_build_requirements(subject: BuildSubject) -> None:
    """What pyproject.toml requires and this environment lacks, with the command to install it."""
    assert list(tools.build_requirements(subject)) == []
    settings = subject.tree.root / "pyproject.toml"
    needs = ["setuptools>=1", "no-such-builder>=3", "setuptools>=999", "x; python_version<'3'"]
    settings.write_text(f"[build-system]\nrequires = {needs}\n")
    (finding,) = tools.build_requirements(subject)
    assert finding.found == "lacks no-such-builder>=3, setuptools>=999"
    assert finding.fix == "python -m pip install 'no-such-builder>=3' 'setuptools>=999'"


_LIBRARY = "csrc/kernel.cpp"
_BUILD = 'build = ["sh", "-c", "g++ -shared -fPIC csrc/kernel.cpp -o flash/kernel.so"]\n'


@pytest.fixture
def buildable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_torch: None) -> Repository:
    """A project that builds in a moment, and a cache of its own."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    project = Repository(tmp_path / "flash")
    project.write(".gitignore", "*.so\nlocal.h\n")
    project.write(
        "pyproject.toml",
        f'[build-system]\nrequires = []\n[tool.flashbench.project]\ncallable = "flash:f"\n{_BUILD}',
    )
    project.write("flash/__init__.py", "def f(q, k, v, **others): return q\n")
    project.write(_LIBRARY, 'extern "C" int answer() { return 42; }\n')
    project.commit("A library")
    return project


def _build_level(root: Path) -> dict[str, list[str]]:
    report: PreflightReport = run(root, "build", timeout=60)
    return {done.name: [one.found for one in done.findings] for done in report.checks}


def test_head_that_builds(buildable: Repository) -> None:
    """Nothing is found, whatever the working tree looks like."""
    found = _build_level(buildable.root)
    assert {name for name, lines in found.items() if lines} <= {"pip"}


def test_head_that_does_not_build(buildable: Repository) -> None:
    """What builds in the working tree with an ignored header, and in no clean export."""
    buildable.write("csrc/local.h", "#define ANSWER 42\n")
    buildable.write(_LIBRARY, '#include "local.h"\nextern "C" int answer() { return ANSWER; }\n')
    buildable.commit("Use a header of this machine")
    found = _build_level(buildable.root)
    assert len(found["headers in git"]) == 1
    assert found["clean build"] == []


def test_build_that_works_now(buildable: Repository, tmp_path: Path) -> None:
    """What was missing on the machine was installed: the failure that is kept is not repeated."""
    header = tmp_path / "include/answer.h"
    buildable.edit("pyproject.toml", "g++ ", f"g++ -I{header.parent} ")
    buildable.write(_LIBRARY, '#include <answer.h>\nextern "C" int answer() { return 42; }\n')
    buildable.commit("Use a header of the machine")
    assert len(_build_level(buildable.root)["clean build"]) == 1
    header.parent.mkdir()
    header.write_text("")
    assert _build_level(buildable.root)["clean build"] == []


def test_helper_that_one_unit_lacks(buildable: Repository) -> None:
    """A conversion that another unit has of its own: the compiler's line, and nothing else."""
    buildable.write(_LIBRARY, 'extern "C" float answer() { return to_float(42); }\n')
    buildable.commit("Convert as the other unit does")
    report = run(buildable.root, "build", timeout=60)
    (error,) = report.errors
    assert error.check == "clean build"
    assert error.found.startswith("compile error: csrc/kernel.cpp:1:")
    assert "to_float" in error.found
    assert error.fix.startswith("flashbench bisect --for build --good ")


_TOOLS = {"g++": ("C++ compiler", "csrc/kernel.cpp"), "nvcc": ("nvcc", "csrc/kernel.cu")}


@pytest.mark.parametrize("tool", _TOOLS)
def test_missing_tool_is_one_error(
    buildable: Repository, bare: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    """The build fails for it, which is no second defect."""
    check, unit = _TOOLS[tool]
    monkeypatch.setattr(tools, "cuda_program", lambda name: None)
    for name in ("git", "sh"):
        (bare / name).symlink_to(f"/usr/bin/{name}")
    if tool == "nvcc":
        _program(bare, "g++")
    buildable.write(unit, "void f() {}\n")
    buildable.edit("pyproject.toml", _BUILD, f'build = ["sh", "-c", "{tool} {unit}"]\n')
    buildable.commit("Build by a tool that is not here")
    report = run(buildable.root, "build", timeout=60)
    assert [one.check for one in report.errors] == [check]
    (reason,) = (done.skipped for done in report.checks if done.name == "clean build")
    assert reason.startswith("HEAD does not build here (build error: ")
    assert f"{tool}: not found" in reason
    assert reason.endswith(f"): fix {check} first")


def test_nvcc_that_the_build_does_without(
    buildable: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project that builds without its CUDA units gets a warning about them."""
    monkeypatch.setattr(tools, "cuda_program", lambda name: None)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    buildable.write("csrc/kernel.cu", "void f() {}\n")
    buildable.commit("Add a unit for CUDA")
    report = run(buildable.root, "build", timeout=60)
    assert report.errors == []
    (finding,) = (one for one in report.warnings if one.check != "pip")
    assert (finding.check, finding.found) == ("nvcc", "nvcc is not installed")


def test_missing_torch_is_one_error(subject: BuildSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though pyproject.toml requires it, too."""
    settings = subject.tree.root / "pyproject.toml"
    settings.write_text('[build-system]\nrequires = ["torch>=2", "no-such-builder"]\n')
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("flashbench.builds.toolchain.installed", lambda name: "")
    (finding,) = tools.build_requirements(subject)
    assert finding.found == "lacks no-such-builder"
    assert [one.found for one in tools.torch(subject)] == ["torch is not installed"]


def test_compiler_of_the_environment_that_is_not_there(
    subject: BuildSubject, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDACXX names the nvcc that CMake takes, whatever is on PATH."""
    monkeypatch.setenv("CUDACXX", "/opt/cuda-11/bin/nvcc")
    _program(bare, "nvcc")
    (finding,) = tools.nvcc(subject)
    assert (finding.where, finding.fix) == ("CUDACXX", "unset CUDACXX")


def test_too_much_shared_memory(buildable: Repository) -> None:
    """A static array that is too large for any chip, which ptxas refuses, is reported as that."""
    message = "ptxas error   : Entry function 'f' uses too much shared data (0x10000 bytes)"
    build = f'build = ["sh", "-c", "echo \\"{message}\\"; exit 1"]\n'
    buildable.edit("pyproject.toml", _BUILD, build)
    buildable.commit("Ask for too much")
    found = _build_level(buildable.root)
    assert found["shared memory"] == [message]
    assert found["clean build"] == []


def test_resources_of_kernels() -> None:
    """cuobjdump's lines: registers, static shared memory, stack, for each chip."""
    text = (
        "Fatbin elf code:\n================\narch = sm_80\ncode version = [1,8]\n"
        "Resource usage:\n Common:\n  GLOBAL:0\n Function _Z6kernelPf:\n"
        "  REG:255 STACK:512 SHARED:49152 LOCAL:0 CONSTANT[0]:380 TEXTURE:0\n"
        "arch = sm_90a\n Function _Z6kernelPf:\n  REG:128 STACK:0 SHARED:1024 LOCAL:0\n"
    )
    first, second = resources.parse(text)
    assert (first.arch, first.registers, first.shared, first.stack) == (80, 255, 49152, 512)
    assert (second.arch, second.registers, second.stack) == (90, 128, 0)


def _library(folder: Path, sections: bytes) -> Path:
    path = folder / "_C.so"
    path.write_bytes(b"\x7fELF" + sections)
    return path


def test_kernels_without_cuobjdump_are_not_known(
    tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code for a GPU that nothing reads is not "no kernels"; a library without needs no tool."""
    monkeypatch.setattr(resources, "cuda_program", lambda name: None)
    assert resources.read_kernels([_library(tmp_path, b".text")]) == []
    with pytest.raises(CannotCheck, match="pip package nvidia-cuda-cuobjdump"):
        resources.read_kernels([_library(tmp_path, b".nv_fatbin")])


def test_kernels_of_ptx_alone_are_not_known(
    tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the driver compiles later has no resources yet; an empty binary has no kernels."""
    library = _library(tmp_path, b".nv_fatbin")
    monkeypatch.setenv("PATH", f"{bare}:/usr/bin:/bin")
    _program(bare, "cuobjdump", "Fatbin ptx code:\n================\narch = sm_80")
    with pytest.raises(CannotCheck, match="PTX alone"):
        resources.read_kernels([library])
    _program(bare, "cuobjdump", "Fatbin elf code:\n================\narch = sm_80")
    assert resources.read_kernels([library]) == []


def test_tools_that_hang(
    subject: BuildSubject, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvidia-smi and cuobjdump that give no answer end the check, not the preflight."""
    for name in ("nvidia-smi", "cuobjdump"):
        _program(bare, name).write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    monkeypatch.setattr(architecture_list, "_SECONDS", 0.2)
    monkeypatch.setattr(resources, "_SECONDS", 0.2)
    monkeypatch.setenv("CUDAARCHS", "80")
    with pytest.raises(CannotCheck, match=r"nvidia-smi did not answer in 0\.2 s"):
        list(architecture_list.architecture_list(subject))
    with pytest.raises(CannotCheck, match=r"cuobjdump did not answer in 0\.2 s"):
        resources.read_kernels([_library(tmp_path, b".nv_fatbin")])
