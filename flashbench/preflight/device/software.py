"""Driver, CUDA, torch and the built kernels fit each other and this chip."""

import re
from collections.abc import Iterator

from flashbench.preflight.architectures import covers
from flashbench.preflight.device.answers import Answers
from flashbench.preflight.finding import CannotCheck, Finding


def driver(answers: Answers) -> Iterator[Finding]:
    """nvidia-smi answers, and lists a device."""
    if answers.driver is None:
        yield Finding(
            "nvidia-smi",
            answers.driver_error,
            "nvidia-smi  # on a machine with a GPU: install its driver, or start the container "
            "with --gpus all",
        )
    elif not answers.driver.gpus:
        yield Finding(f"driver {answers.driver.version}", "it lists no GPU", "nvidia-smi -L")


def fits(answers: Answers) -> Iterator[Finding]:
    """The driver runs the CUDA that torch was built for.

    Within one major version a driver runs newer minor ones (CUDA's minor-version compatibility).
    """
    driver = answers.require_driver()
    if answers.torch is None or not answers.torch.cuda or not driver.cuda:
        raise CannotCheck("torch is not built for CUDA, or the driver does not say its version")
    runs, needs = _version(driver.cuda), _version(answers.torch.cuda)
    if runs[0] < needs[0]:
        yield Finding(
            f"driver {driver.version}",
            f"it runs CUDA up to {driver.cuda}; torch {answers.torch.version} is built for "
            f"{answers.torch.cuda}",
            f"install a torch for CUDA {runs[0]}, or a driver for CUDA {needs[0]}",
        )


def torch_sees(answers: Answers) -> Iterator[Finding]:
    """torch is there, has CUDA, and reaches the device."""
    torch = answers.torch
    if torch is None:
        yield Finding("torch", "is not installed", "python -m pip install torch")
    elif torch.error and not torch.version:
        yield Finding(
            "torch",
            f"cannot be imported: {torch.error}",
            "python -c 'import torch'",
        )
    elif not torch.cuda:
        if answers.driver is not None and answers.driver.gpus:
            yield Finding(
                f"torch {torch.version}",
                "is built without CUDA",
                "python -m pip install --force-reinstall torch  # a build for CUDA",
            )
    elif not torch.available or torch.error:
        hidden = answers.visible is not None and answers.visible.strip() in ("", "-1")
        yield Finding(
            f"torch {torch.version}",
            "CUDA_VISIBLE_DEVICES hides every GPU" if hidden else f"sees no GPU: {torch.error}",
            "unset CUDA_VISIBLE_DEVICES"
            if hidden
            else "python -c 'import torch; torch.cuda.init()'",
        )


def chip_covered(answers: Answers) -> Iterator[Finding]:
    """The build has machine code for this chip (same major version, a minor one not above its own)
    or PTX of an older one, which the driver compiles."""
    driver = answers.require_driver()
    if isinstance(answers.archs, CannotCheck):
        raise answers.archs
    if not answers.archs:
        raise CannotCheck("the build has no code for a GPU")
    for gpu in driver.gpus:
        chip = gpu.capability.replace(".", "")
        if chip and not any(covers(arch, int(chip)) for arch in answers.archs):
            yield Finding(
                f"{gpu.name} (sm_{chip})",
                f"the build has {', '.join(answers.archs)}",
                answers.setting.cover(int(chip)),
            )


def backends(answers: Answers) -> Iterator[Finding]:
    """SDPA's backends take a small fp16 call."""
    if answers.torch is None or not answers.torch.available:
        raise CannotCheck("torch sees no GPU")
    if answers.torch.missing:
        yield Finding(
            f"torch {answers.torch.version}",
            f"{', '.join(answers.torch.missing)} cannot be used",
            "python -m torch.utils.collect_env",
            "warning",
        )


def nvcc(answers: Answers) -> Iterator[Finding]:
    """nvcc is on PATH, and not newer than the driver where code is not for this chip alone."""
    said = answers.tools.get("nvcc", "")
    if not said:
        yield Finding(
            "PATH",
            "nvcc is not on PATH",
            'export PATH="/usr/local/cuda/bin:$PATH"',
            "warning",
        )
    elif said.startswith("fails"):
        yield Finding("nvcc --version", said, "nvcc --version")
    elif answers.driver is not None and answers.driver.cuda:
        release = re.search(r"release (\d+)\.(\d+)", said)
        if release and int(release[1]) > _version(answers.driver.cuda)[0]:
            yield Finding(
                f"nvcc {release[1]}.{release[2]}",
                f"the driver runs CUDA up to {answers.driver.cuda}",
                f"install nvcc {_version(answers.driver.cuda)[0]}, or a newer driver",
            )


def ncu(answers: Answers) -> Iterator[Finding]:
    """ncu is on PATH, and this user may read the counters."""
    said = answers.tools.get("ncu", "")
    if not said or said.startswith("fails"):
        yield Finding("PATH", said or "ncu is not on PATH", "install Nsight Compute", "warning")
    elif answers.profiling == "user, admin only":
        yield Finding(
            "/proc/driver/nvidia/params",
            "the driver lets only root read the GPU's counters",
            "sudo ncu, or ask for NVreg_RestrictProfilingToAdminUsers=0",
            "warning",
        )


def _version(text: str) -> tuple[int, int]:
    major, minor, *_ = [*map(int, re.findall(r"\d+", text)), 0, 0]
    return major, minor
