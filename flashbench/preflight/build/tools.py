"""The compilers and packages that a build needs are here, on PATH, and of this Python."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from pathlib import Path

from flashbench.inputs import reason
from flashbench.preflight.architectures import holds, torch_name
from flashbench.preflight.build.resources import cuda_program, run_tool
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck, Finding, Severity

# What `make` and setup.py look for is in build_support/prerequisites.py and setup.py, which run
# before there is a package, the former on a Python too old for it. An installed package does not
# have them: so the names of compilers, and the place of Python's headers, are here once more.
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_SECONDS = 10.0  # for an answer of nvidia-smi or nvcc


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
    """nvcc is on PATH where there are units for it. flashbench itself does without."""
    if not subject.has_cuda:
        raise CannotCheck("there are no units for nvcc")
    if shutil.which("nvcc") or os.environ.get("CUDACXX"):
        return
    found = cuda_program("nvcc")
    severity: Severity = "warning" if subject.is_ours else "error"
    if found is None:
        yield Finding(
            "PATH", "nvcc is not installed", "apt-get install nvidia-cuda-toolkit", severity
        )
        return

    def mend() -> str:
        os.environ["PATH"] = f"{found.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return f"put {found.parent} on the PATH of this process"

    yield Finding(
        "PATH",
        f"nvcc is in {found.parent}, which is not on PATH",
        f'export PATH="{found.parent}:$PATH"',
        severity,
        mend,
    )


def architecture_list(subject: BuildSubject) -> Iterator[Finding]:
    """A list of architectures in the environment, which this build reads, holds this chip."""
    chip, untold = _chip(), []
    for variable in _lists(subject):
        value = os.environ.get(variable, "")
        held = holds(variable, value, chip) if value else True
        if held is None:
            untold.append(f"{variable}={value}")
        if held is not False:
            continue

        def mend(name: str = variable) -> str:
            os.environ[name] = torch_name(chip) if name == "TORCH_CUDA_ARCH_LIST" else str(chip)
            return f"set {name}={os.environ[name]} for the builds of this process"

        yield Finding(
            variable,
            f"is {value!r}, without the sm_{chip} of this machine",
            f"unset {variable}",
            mend=mend,
        )
    if untold:
        raise CannotCheck(f"what {', '.join(untold)} stands for is the build's to say")


def _lists(subject: BuildSubject) -> tuple[str, ...]:
    """The variables that this build reads; none where the flags for nvcc are written out."""
    name, tree = subject.setting.name, subject.tree
    if name == "CMAKE_CUDA_ARCHITECTURES":
        torch = any("find_package(Torch" in tree.read(file).text for file in tree.build_files)
        return ("TORCH_CUDA_ARCH_LIST", "CUDAARCHS") if torch else ("CUDAARCHS",)
    return () if name == "-gencode" else (name,)


def _chip() -> int:
    """Of the first GPU here, as 90; CannotCheck without one."""
    if shutil.which("nvidia-smi") is None:
        raise CannotCheck("there is no GPU here")
    said = _answer(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
    found = re.match(r"(\d+)\.(\d)", said)
    if found is None:
        raise CannotCheck("nvidia-smi does not say what chip is here")
    return int(found[1] + found[2])


def pip(subject: BuildSubject) -> Iterator[Finding]:
    """This Python has pip, and the pip3 of PATH is its own."""
    if importlib.util.find_spec("pip") is None:
        yield Finding(sys.executable, "has no pip", "python -m ensurepip --upgrade")
        return
    program = shutil.which("pip3") or shutil.which("pip")
    if program is None:
        return
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        why = reason(error) if isinstance(error, OSError) else "no answer within 60 s"
        yield Finding(program, f"cannot be run: {why}", "python -m pip --version")
        return
    said = re.search(r" from (.+) \(python (\S+)\)", done.stdout)
    mine = Path(sysconfig.get_paths()["purelib"])
    if said and not Path(said[1]).is_relative_to(mine):
        yield Finding(
            program,
            f"installs for Python {said[2]} in {Path(said[1]).parent}, not for {sys.executable}",
            "python -m pip  # in place of pip3",
            "warning",
        )


def build_requirements(subject: BuildSubject) -> Iterator[Finding]:
    """What pyproject.toml requires for a build is installed: builds are made without network."""
    from flashbench.builds.requirements import missing

    try:
        text = (subject.tree.root / "pyproject.toml").read_text(encoding="utf-8")
        required = tomllib.loads(text).get("build-system", {}).get("requires", [])
    except (OSError, ValueError):
        raise CannotCheck("no pyproject.toml that can be read") from None
    texts = [one for one in required if isinstance(one, str)] if isinstance(required, list) else []
    if lacking := missing(texts):
        yield Finding(
            sys.executable,
            f"lacks {', '.join(lacking)}",
            shlex.join(["python", "-m", "pip", "install", *lacking]),
        )


def torch(subject: BuildSubject) -> Iterator[Finding]:
    """torch is installed, for the CUDA of nvcc where the build compiles against torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        yield Finding(sys.executable, "torch is not installed", "python -m pip install torch")
        return
    if not subject.has_cuda or subject.is_ours:
        return
    stated = Path(spec.origin).with_name("version.py")
    text = stated.read_text(errors="replace") if stated.exists() else ""
    cuda = re.search(r"^cuda[^=\n]*=\s*'([^']+)'", text, re.MULTILINE)
    uses = any(
        "torch.utils.cpp_extension" in subject.tree.read(f).text for f in subject.tree.build_files
    )
    if cuda is None:
        if uses:
            yield Finding(
                sys.executable,
                "torch is built without CUDA, and the build compiles CUDA against it",
                "python -m pip install --force-reinstall torch  # a build for CUDA",
            )
        return
    release = _nvcc_release()
    if uses and release and release != cuda[1].partition(".")[0]:
        yield Finding(
            sys.executable,
            f"torch is built for CUDA {cuda[1]}, and nvcc is of {release}",
            f"install nvcc {cuda[1].partition('.')[0]}, or a torch for CUDA {release}",
        )


def _nvcc_release() -> str:
    program = shutil.which("nvcc")
    if program is None:
        return ""
    found = re.search(r"release (\d+)", _answer([program, "--version"]))
    return found[1] if found else ""


def _answer(command: list[str]) -> str:
    """What a program prints, "" where it fails; CannotCheck where it gives no answer."""
    done = run_tool(command, _SECONDS)
    return done.stdout if done.returncode == 0 else ""
