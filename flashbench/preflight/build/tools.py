"""The compilers and packages that a build needs are installed, on PATH, and for this Python."""

import importlib.util
import os
import re
import shlex
import shutil
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck, Finding, Severity
from flashbench.preflight.programs import ask, cuda_program
from flashbench.preflight.source.listings import is_build

# build_support/prerequisites.py and setup.py hold what `make` and setup.py look for: they run
# before there is a package, the former on a Python too old for it. An installed package lacks both
# files, so compiler names and the place of Python's headers are repeated here.
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_SECONDS = 60.0  # for an answer from nvcc or pip
_BUILDS_AGAINST_TORCH = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+torch\.utils(?:\.cpp_extension|[ \t]+import\b[^\n]*cpp_extension)"
    r"|^[ \t]*find_package[ \t]*\([ \t]*Torch\b",
    re.MULTILINE,
)


def compiler(subject: BuildSubject) -> Iterator[Finding]:
    if not subject.tree.units:
        raise CannotCheck("there is nothing to compile")
    chosen = os.environ.get("CXX", "").split()[:1] or ["c++", "g++", "clang++"]
    if not any(shutil.which(name) for name in chosen):
        yield Finding("PATH", f"{', '.join(chosen)} not found", "apt-get install g++")


def python_headers(subject: BuildSubject) -> Iterator[Finding]:
    if not subject.tree.units:
        raise CannotCheck("there is nothing to compile")
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not header.exists():
        yield Finding(str(header), "is not there", f"apt-get install {_PYTHON}-dev")


def nvcc(subject: BuildSubject) -> Iterator[Finding]:
    """Check that nvcc is on PATH if there are units for it: an error unless HEAD builds without
    it."""
    if not subject.has_cuda:
        raise CannotCheck("there are no units for nvcc")
    name = _nvcc_name()
    if shutil.which(name):
        return
    if name != "nvcc":
        yield Finding("CUDACXX", f"is {name}, which is not there", "unset CUDACXX")
        return
    found = cuda_program("nvcc")
    if found is None:
        severity: Severity = "warning" if _builds(subject) else "error"
        fix = "apt-get install nvidia-cuda-toolkit"
        yield Finding("PATH", "nvcc is not installed", fix, severity)
        return

    def repair() -> str:
        os.environ["PATH"] = f"{found.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return f"put {found.parent} on the PATH of this process"

    yield Finding(
        "PATH",
        f"nvcc is in {found.parent}, which is not on PATH",
        f'export PATH="{found.parent}:$PATH"',
        "warning" if subject.is_ours else "error",
        repair,
    )


def _nvcc_name() -> str:
    """Name nvcc as CMake chooses it."""
    return next(iter(os.environ.get("CUDACXX", "").split()), "nvcc")


def _builds(subject: BuildSubject) -> bool:
    try:
        return subject.built.build.status == "built"
    except CannotCheck:
        return False


def pip(subject: BuildSubject) -> Iterator[Finding]:
    """Check that this Python has pip, and that the pip3 which builds find is its own."""
    from flashbench.builds import running

    python = shlex.quote(sys.executable)
    mine = importlib.util.find_spec("pip")
    if mine is None:
        yield Finding(sys.executable, "has no pip", f"{python} -m ensurepip --upgrade")
        return
    path = running.environment()["PATH"]
    program = shutil.which("pip3", path=path) or shutil.which("pip", path=path)
    if program is None:
        return
    fix = f"{python} -m pip install --force-reinstall pip"  # its pip3 comes first on builds' PATH
    try:
        said = ask([program, "--version"], _SECONDS)
    except CannotCheck as error:
        yield Finding(program, str(error), fix, "warning")
        return
    found = re.search(r" from (.+) \(python (\S+)\)", said.output)
    if found is None:
        raise CannotCheck(f"{program} does not say for which Python it installs")
    other = Path(found[1])
    if other.resolve() not in (
        Path(one).resolve() for one in mine.submodule_search_locations or ()
    ):
        text = f"installs for Python {found[2]} in {other.parent}, not for {sys.executable}"
        yield Finding(program, text, fix, "warning")


def build_requirements(subject: BuildSubject) -> Iterator[Finding]:
    """Check that the build requirements of pyproject.toml are installed: builds have no network."""
    from flashbench.builds.requirements import missing

    try:
        text = (subject.tree.root / "pyproject.toml").read_text(encoding="utf-8")
        required = tomllib.loads(text).get("build-system", {}).get("requires", [])
    except (OSError, ValueError, AttributeError):
        raise CannotCheck("no pyproject.toml that can be read") from None
    texts = [one for one in required if isinstance(one, str)] if isinstance(required, list) else []
    lacking = [one for one in missing(texts) if _torch() or Requirement(one).name != "torch"]
    if lacking:
        yield Finding(
            sys.executable,
            f"lacks {', '.join(lacking)}",
            shlex.join(["python", "-m", "pip", "install", *lacking]),
        )


def torch(subject: BuildSubject) -> Iterator[Finding]:
    """Check that torch is installed, for nvcc's CUDA if the build compiles against torch."""
    place = _torch()
    if place is None:
        yield Finding(sys.executable, "torch is not installed", "python -m pip install torch")
        return
    files = [subject.tree.read(name).text for name in filter(is_build, subject.tree.build_files)]
    against = any(_BUILDS_AGAINST_TORCH.search(text) for text in files)
    if not subject.has_cuda or not against:
        return
    stated = place.with_name("version.py")
    text = stated.read_text(errors="replace") if stated.exists() else ""
    cuda = re.search(r"^cuda\b[^=\n]*=\s*(?:'([^']+)'|None)", text, re.MULTILINE)
    if cuda is None:
        raise CannotCheck("torch does not say which CUDA it is built for")
    if cuda[1] is None:
        yield Finding(
            sys.executable,
            "torch is built without CUDA, and the build compiles CUDA against it",
            "python -m pip install --force-reinstall torch  # a build for CUDA",
        )
        return
    release, needed = _nvcc_release(), cuda[1].partition(".")[0]
    if release != needed:
        yield Finding(
            sys.executable,
            f"torch is built for CUDA {cuda[1]}, and nvcc is of {release}",
            "python -m pip install --force-reinstall torch  "
            f"# one for CUDA {release}, or install nvcc {needed}",
        )


def _torch() -> Path | None:
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin) if spec is not None and spec.origin else None


def _nvcc_release() -> str:
    """nvcc's major version."""
    program = shutil.which(_nvcc_name())
    if program is None:
        raise CannotCheck("nvcc is not on PATH")
    found = re.search(r"release (\d+)", ask([program, "--version"], _SECONDS).output)
    if found is None:
        raise CannotCheck("nvcc does not say its version")
    return found[1]
