"""The build and torch have kernels for this machine's chips."""

import re
from collections.abc import Iterator

from flashbench.preflight.architectures import covers
from flashbench.preflight.device.answers import Answers
from flashbench.preflight.finding import CannotCheck, Finding


def _chips(answers: Answers) -> dict[str, int]:
    """The chips here, as 90, from the driver or, if it is too old to say, from torch."""
    named = {gpu.name: gpu.capability for gpu in answers.require_gpus()}
    if not all(named.values()):
        if answers.torch is None or not answers.torch.chips:
            raise CannotCheck("neither the driver nor torch says which chip this is")
        named = {f"cuda:{index}": chip for index, chip in enumerate(answers.torch.chips)}
    return {name: int(chip.replace(".", "")) for name, chip in named.items()}


def chip_covered(answers: Answers) -> Iterator[Finding]:
    """Check that the build has machine code for this chip (same major version, minor not above its
    own) or PTX of an older one, which the driver compiles."""
    chips = _chips(answers)
    if isinstance(answers.archs, CannotCheck):
        raise answers.archs
    if not answers.archs:
        raise CannotCheck("the build has no code for a GPU")
    for name, chip in chips.items():
        if not any(covers(arch, chip) for arch in answers.archs):
            yield Finding(
                f"{name} (sm_{chip})",
                f"the build has {', '.join(answers.archs)}",
                answers.setting.cover(chip),
            )


def torch_covered(answers: Answers) -> Iterator[Finding]:
    """Check that torch has kernels for this chip."""
    if answers.torch is None or not answers.torch.archs:
        raise CannotCheck("torch does not say what it has kernels for")
    for name, chip in without_kernels(answers).items():
        yield Finding(
            f"{name} (sm_{chip})",
            f"torch {answers.torch.version} has kernels for {', '.join(answers.torch.archs)}",
            "python -m pip install --force-reinstall torch  # one that has this chip",
        )


def without_kernels(answers: Answers) -> dict[str, int]:
    """Chips that torch has no kernels for."""
    torch = answers.torch
    if torch is None or not torch.archs:
        return {}
    archs = [
        re.sub(r"\Acompute_(\w+)\Z", r"\1-virtual", re.sub(r"\Asm_(\w+)\Z", r"\1-real", arch))
        for arch in torch.archs
    ]
    return {
        name: chip
        for name, chip in _chips(answers).items()
        if not any(covers(arch, chip) for arch in archs)
    }
