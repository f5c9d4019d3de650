"""What a build depends on besides its sources: a change of any of it is another build."""

import importlib.metadata
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from pathlib import Path

# Everything that compilers, CMake and setup.py read from the environment and that can change the
# library. FLASHBENCH_JOBS, for one, cannot.
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
    "CUDACXX",
    "CUDAFLAGS",
    "CUDA_HOME",
    "FLASHBENCH_CUDA",
    "FLASHBENCH_CUDA_ARCHS",
    "FLASHBENCH_DTYPES",
)


def describe(variables: Iterable[str] = ()) -> dict[str, str]:
    """Versions of the compilers, Python and pybind11, and the environment's build settings.

    variables: further ones of the environment to tell. An empty version says that the tool is not
    there.
    """
    compilers = [os.environ.get("CXX", "").split(), ["c++"], ["g++"], ["clang++"]]
    cuda_home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvccs = [os.environ.get("CUDACXX", "").split(), ["nvcc"], [f"{cuda_home}/bin/nvcc"]]
    wants_cuda = os.environ.get("FLASHBENCH_CUDA", "").upper() != "OFF"
    return {
        "compiler": _version(compilers, line=0),
        "nvcc": _version(nvccs, line=-1) if wants_cuda else "",
        "python": str(sysconfig.get_config_var("EXT_SUFFIX")),
        "pybind11": installed("pybind11"),
    } | {name: os.environ[name] for name in (*VARIABLES, *variables) if os.environ.get(name)}


def _version(candidates: list[list[str]], line: int) -> str:
    for command in candidates:
        if command and shutil.which(command[0]):
            done = subprocess.run([*command, "--version"], capture_output=True, text=True)
            lines = done.stdout.strip().splitlines()
            # The name tells g++ and clang++ apart where their versions read alike.
            return f"{Path(command[0]).name}: {lines[line]}" if lines else command[0]
    return ""


def installed(distribution: str) -> str:
    """The version of an installed distribution; empty when it is not there."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
