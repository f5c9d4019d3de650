"""Builds as a user makes them: without nvcc, without a dtype unit, from a source distribution."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def _run(directory: Path, *command: str, **environment: str) -> str:
    binaries = str(Path(sys.executable).parent)
    variables = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", **environment}
    done = subprocess.run(command, cwd=directory, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _python(directory: Path, code: str) -> str:
    return _run(
        directory, sys.executable, "-c", code, PYTHONPATH=str(directory), PYTHONSAFEPATH="1"
    )


def _pip(clone: Path, *arguments: str, **environment: str) -> None:
    flags = ["--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    _run(clone, sys.executable, "-m", "pip", "install", *flags, *arguments, **environment)


INFO = "from flashbench import _C; import json; print(json.dumps(_C.build_info()))"


def test_without_nvcc_and_without_the_bf16_unit(clone: Path, tmp_path: Path) -> None:
    """A CPU-only build whose bf16 units were deleted loads, says so, and still does fp16."""
    for unit in [*clone.glob("csrc/cpu/bf16.cpp"), *clone.glob("csrc/cuda/**/*bf16*.cu")]:
        unit.unlink()
    target = tmp_path / "site"
    _pip(clone, ".", "--target", str(target), FLASHBENCH_CUDA="OFF")
    info = json.loads(_python(target, INFO))
    assert info["cpu_dtypes"] == ["fp32", "fp16"]
    assert info["cuda_dtypes"] == info["cuda_archs"] == []
    assert info["dirty"] is True
    code = """
import torch, flashbench
x = torch.randn(1, 2, 9, 32)
flashbench.attention(x.half(), x.half(), x.half())
try:
    flashbench.attention(x.bfloat16(), x.bfloat16(), x.bfloat16())
except TypeError as error:
    print(error)
"""
    assert "does not support for cpu (it supports fp16, fp32)" in _python(target, code)
    assert "left out     bf16 (cpu)" in _run(
        target, sys.executable, "-m", "flashbench", "info", PYTHONPATH=str(target)
    )


@pytest.mark.thorough
def test_source_distribution_remembers_its_commit(clone: Path) -> None:
    """`python -m build` makes a wheel from the source distribution that still knows its commit."""
    settings = {"FLASHBENCH_CUDA": "OFF", "FLASHBENCH_DTYPES": "fp32"}
    _run(clone, sys.executable, "-m", "build", "--no-isolation", **settings)
    commit = _run(clone, "git", "rev-parse", "HEAD").strip()
    (archive,) = (clone / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.split("/", 1)[-1] for name in tar.getnames()}
    assert {"csrc/CMakeLists.txt", "csrc/attention.h", "setup.py", "LICENSE"} <= names
    (wheel,) = (clone / "dist").glob("*.whl")
    unpacked = clone / "dist" / "unpacked"
    _run(clone, sys.executable, "-m", "zipfile", "-e", str(wheel), str(unpacked))
    info = json.loads(_python(unpacked, INFO))
    assert (info["commit"], info["dirty"], info["cpu_dtypes"]) == (commit, False, ["fp32"])
    tree = f"from flashbench import source_hash as s; from pathlib import Path as P; \
print(s.of_tree(P({str(clone)!r})))"
    assert _python(unpacked, tree).strip() == info["source_hash"]


def test_a_missing_compiler_is_one_line_with_the_fix(clone: Path, tmp_path: Path) -> None:
    """Without a C++ compiler on PATH the check says what to install and exits with 4."""
    (tmp_path / "bin").mkdir()
    command = [sys.executable, "build_support/prerequisites.py"]
    done = subprocess.run(
        command, cwd=clone, env={"PATH": str(tmp_path / "bin")}, capture_output=True, text=True
    )
    assert done.returncode == 4
    assert "no C++ compiler" in done.stderr
    assert "git is not on PATH" in done.stderr
    assert all(line.startswith("flashbench: ") for line in done.stderr.splitlines())


def test_ccache_knows_sources_again_in_another_folder(clone: Path, tmp_path: Path) -> None:
    """Where ccache is installed, it is given the folder that its keys are to leave out."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ccache").write_text('#!/bin/sh\necho "without $CCACHE_BASEDIR"\nexit 1\n')
    (programs / "ccache").chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "FLASHBENCH_CUDA": "OFF", "FLASHBENCH_DTYPES": "fp32"}
    command = [sys.executable, "setup.py", "build_ext"]
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    assert f"without {clone}\n" in done.stdout


def test_a_missing_header_fails_the_build_by_name(clone: Path) -> None:
    """A header that was never committed ends the build with its name in the output."""
    (clone / "csrc/cpu/thread_pool.h").unlink()
    command = [sys.executable, "setup.py", "build_ext"]
    binaries = str(Path(sys.executable).parent)
    environment = {**os.environ, "FLASHBENCH_CUDA": "OFF", "FLASHBENCH_DTYPES": "fp32"}
    environment["PATH"] = f"{binaries}:{environment['PATH']}"
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "thread_pool.h: No such file or directory" in done.stdout
    assert "the build failed" in done.stderr


def test_a_warning_ends_a_build_that_is_to_have_none(clone: Path) -> None:
    """With FLASHBENCH_WERROR=ON what the compiler only warns of fails, by its name."""
    with (clone / "csrc/cpu/openmp.h").open("a") as header:  # of units that compile fast
        header.write("static int never_used = 0;\n")
    command = [sys.executable, "setup.py", "build_ext"]
    environment = {**os.environ, "FLASHBENCH_CUDA": "OFF", "FLASHBENCH_DTYPES": "fp32"}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    environment["FLASHBENCH_WERROR"] = "ON"
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "-Werror=unused-variable" in done.stdout
