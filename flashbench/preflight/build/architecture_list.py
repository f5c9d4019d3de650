"""An architecture list in the environment that omits this machine's chip."""

import os
import re
import shutil
from collections.abc import Iterator

from flashbench.preflight.architectures import holds, torch_name
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.programs import ask

_SECONDS = 10.0  # for an answer from nvidia-smi


def architecture_list(subject: BuildSubject) -> Iterator[Finding]:
    """Check that an architecture list in the environment, if this build reads it, holds this
    chip."""
    chip, unknown = _chip(), []
    by_cmake = subject.setting.name == "CMAKE_CUDA_ARCHITECTURES"
    for variable in _lists(subject):
        value = os.environ.get(variable, "")
        held = holds(variable, value, chip, by_cmake=by_cmake) if value else True
        if held is None:
            unknown.append(f"{variable}={value}")
        if held is not False:
            continue

        def repair(name: str = variable) -> str:
            os.environ[name] = torch_name(chip) if name == "TORCH_CUDA_ARCH_LIST" else str(chip)
            return f"set {name}={os.environ[name]} for the builds of this process"

        yield Finding(
            variable,
            f"is {value!r}, without the sm_{chip} of this machine",
            f"unset {variable}",
            repair=repair,
        )
    if unknown:
        raise CannotCheck(f"what {', '.join(unknown)} stands for is the build's to say")


def _lists(subject: BuildSubject) -> tuple[str, ...]:
    """Variables this build reads; none if the flags for nvcc are written out."""
    name, tree = subject.setting.name, subject.tree
    if name == "CMAKE_CUDA_ARCHITECTURES":
        torch = any("find_package(Torch" in tree.read(file).text for file in tree.build_files)
        return ("TORCH_CUDA_ARCH_LIST", "CUDAARCHS") if torch else ("CUDAARCHS",)
    return () if name == "-gencode" else (name,)


def _chip() -> int:
    """Chip of the first GPU here, as 90; CannotCheck without a GPU."""
    if shutil.which("nvidia-smi") is None:
        raise CannotCheck("there is no GPU here")
    question = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    answer = ask(question, _SECONDS)
    found = re.match(r"(\d+)\.(\d)", answer.output) if answer.code == 0 else None
    if found is None:
        raise CannotCheck("nvidia-smi does not say what chip is here")
    return int(found[1] + found[2])
