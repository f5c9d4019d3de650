"""What a build depends on besides its sources: any change makes it another build."""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from flashbench.errors import NotMeasuredError

# Variables that compilers, CMake, torch and setup.py read and that can change the library; paths
# count by text, not content. FLASHBENCH_JOBS, for one, cannot, and CUDA_VISIBLE_DEVICES differs
# between workers: so no prefix is included as a whole.
VARIABLES = (
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "CMAKE_ARGS",
    "CMAKE_BUILD_TYPE",
    "CMAKE_GENERATOR",
    "CMAKE_INCLUDE_PATH",
    "CMAKE_LIBRARY_PATH",
    "CMAKE_PREFIX_PATH",
    "CMAKE_TOOLCHAIN_FILE",
    "CUDAARCHS",
    "CUDACXX",
    "CUDAFLAGS",
    "CUDAHOSTCXX",
    "CUDA_HOME",
    "CUDA_PATH",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "NVCC_PREPEND_FLAGS",
    "TORCH_CUDA_ARCH_LIST",
    "FLASHBENCH_CUDA",
    "FLASHBENCH_CUDA_ARCHS",
    "FLASHBENCH_CUDA_DRAFT",
    "FLASHBENCH_DTYPES",
)


_SECONDS = 60.0  # for a compiler's version, from a cold network file system


def describe(variables: Iterable[str] = ()) -> dict[str, str]:
    """Versions of the compilers, Python and pybind11, and the environment's build settings.

    variables: further ones to include. An empty version means that the tool is missing.
    """
    compilers = [os.environ.get("CXX", "").split(), ["c++"], ["g++"], ["clang++"]]
    cuda_home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvccs = [os.environ.get("CUDACXX", "").split(), ["nvcc"], [f"{cuda_home}/bin/nvcc"]]
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    without_headers = {} if header.exists() else {"python headers": "missing"}
    wants_cuda = os.environ.get("FLASHBENCH_CUDA", "").upper() != "OFF"
    return (
        {
            "compiler": _version(compilers, line=0),
            "nvcc": _version(nvccs, line=-1) if wants_cuda else "",
            "python": str(sysconfig.get_config_var("EXT_SUFFIX")),
            "pybind11": installed("pybind11"),
        }
        | without_headers
        | {name: os.environ[name] for name in (*VARIABLES, *variables) if os.environ.get(name)}
    )


def environment_digest() -> str:
    """A digest of this Python's packages: what was missing at an import may be installed now."""
    names = {
        entry.name
        for place in sys.path
        if place and Path(place).is_dir()
        for entry in os.scandir(place)
        if entry.name.endswith((".dist-info", ".egg-info"))
    }
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


def _version(candidates: list[list[str]], line: int) -> str:
    for command in candidates:
        program = shutil.which(command[0]) if command else None
        if program is not None:
            lines = _printed(tuple(command), program, Path(program).stat().st_mtime_ns)
            # The name distinguishes g++ and clang++ with identical versions. A program off PATH
            # keeps its folder: a build may not find it there.
            found = shutil.which(Path(command[0]).name)
            name = Path(command[0]).name if found else command[0]
            return f"{name}: {lines[line]}" if lines else command[0]
    return ""


@cache
def _printed(command: tuple[str, ...], program: str, changed: int) -> list[str]:
    """The lines of `--version`. Cached by `program` and `changed`, the file and its age.

    Raises NotMeasuredError if it does not answer: no build would end either.
    """
    asked = [*command, "--version"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotMeasuredError(
            f"{program} --version did not answer in {_SECONDS:g} s: fix it, or take it off PATH"
        ) from None
    return done.stdout.strip().splitlines()


def installed(distribution: str) -> str:
    """The version of an installed distribution; empty if it is missing."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
