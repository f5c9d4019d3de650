"""Driver, CUDA, torch and the built kernels fit each other and this chip."""

import re
from collections.abc import Iterator

from flashbench.preflight.device.answers import Answers
from flashbench.preflight.device.chips import without_kernels
from flashbench.preflight.device.nvidia_smi import GpuState
from flashbench.preflight.finding import CannotCheck, Finding

# What nvidia-smi reports, and what helps.
_MENDS = {
    "version mismatch": "sudo reboot  # the driver was updated, and the old one is loaded",
    "Unknown Error": (
        "docker restart $(hostname)  # on the host: the container has lost its access to the GPU"
    ),
    "GPU is lost": "sudo reboot  # the GPU has left the bus",
    "couldn't communicate with the NVIDIA driver": (
        "sudo modprobe nvidia  # after an update of the kernel: install the driver for it again"
    ),
    "No devices were found": "sudo dmesg | grep -i -e nvrm -e xid  # why the driver takes no GPU",
    "Insufficient Permissions": "ls -l /dev/nvidia*  # this user may not read the device files",
    "libnvidia-ml.so": "docker run --gpus all IMAGE  # the container has nvidia-smi and no driver",
}
_NO_KERNEL = "no kernel image"


def driver(answers: Answers) -> Iterator[Finding]:
    """Check that nvidia-smi answers, and lists a device."""
    if answers.driver is None:
        start = (
            "nvidia-smi  # on a machine with a GPU: install its driver, or start the container "
            "with --gpus all"
        )
        fixes = [fix for sign, fix in _MENDS.items() if sign in answers.driver_error]
        yield Finding("nvidia-smi", answers.driver_error, next(iter(fixes), start))
    elif not answers.driver.gpus:
        yield Finding(f"driver {answers.driver.version}", "it lists no GPU", "nvidia-smi -L")


def fits(answers: Answers) -> Iterator[Finding]:
    """Check that the driver runs the CUDA torch was built for.

    Within a major version a driver runs newer minor ones (CUDA's minor-version compatibility).
    """
    driver = answers.require_driver()
    if answers.torch is None or not answers.torch.cuda or not driver.cuda:
        raise CannotCheck("torch is not built for CUDA, or the driver does not say its version")
    if _is_too_old(answers):
        runs, needs = _version(driver.cuda), _version(answers.torch.cuda)
        yield Finding(
            f"driver {driver.version}",
            f"it runs CUDA up to {driver.cuda}; torch {answers.torch.version} is built for "
            f"{answers.torch.cuda}",
            "python -m pip install --force-reinstall torch  "
            f"# one for CUDA {runs[0]}, or a driver for CUDA {needs[0]}",
        )


def _is_too_old(answers: Answers) -> bool:
    """Whether the driver is too old for torch's CUDA."""
    if answers.driver is None or answers.torch is None:
        return False
    runs, needs = _version(answers.driver.cuda), _version(answers.torch.cuda)
    return 0 < runs[0] < needs[0]


def torch_sees(answers: Answers) -> Iterator[Finding]:
    """Check that torch is installed, has CUDA, and reaches the device."""
    torch = answers.torch
    if torch is None or "torch" in answers.named:
        raise CannotCheck("torch is missing or does not fit: see the level build")
    if torch.error and not torch.version:
        yield Finding("torch", f"cannot be imported: {torch.error}", "python -c 'import torch'")
    elif not torch.cuda:
        if answers.driver is None or not answers.driver.gpus:
            raise CannotCheck("there is no GPU to see")
        yield Finding(
            f"torch {torch.version}",
            "is built without CUDA",
            "python -m pip install --force-reinstall torch  # a build for CUDA",
        )
    elif torch.error or not torch.available:
        if explained := _explained(answers):
            raise CannotCheck(f"torch fails on the GPU: fix {explained} first")
        hidden = bool(answers.driver and answers.driver.gpus) and not _sees(answers)
        fails = "fails on the GPU" if torch.available else "sees no GPU"
        yield Finding(
            f"torch {torch.version}",
            f"CUDA_VISIBLE_DEVICES={answers.chosen} hides every GPU"
            if hidden
            else f"{fails}: {torch.error}",
            "unset CUDA_VISIBLE_DEVICES"
            if hidden
            else "python -c 'import torch; torch.cuda.init()'",
        )


def _explained(answers: Answers) -> str:
    """Name the check that explains why torch fails; "" if none does."""
    if answers.driver is None or not answers.driver.gpus:
        return "driver"
    if _is_too_old(answers):
        return "driver against torch"
    error = answers.torch.error if answers.torch else ""
    if _NO_KERNEL in error and without_kernels(answers):
        return "torch covers the chip"
    gpus = _sees(answers)
    if any(gpu.instances == 0 for gpu in gpus):
        return "MIG"
    if any("Prohibited" in gpu.compute_mode for gpu in gpus):
        return "compute mode"
    if any("Exclusive" in gpu.compute_mode and gpu.processes for gpu in gpus):
        return "other processes"
    if "out of memory" in error and gpus:
        return "free memory"
    return "ECC" if any(gpu.ecc_errors or gpu.unrepaired for gpu in gpus) else ""


def _sees(answers: Answers) -> list[GpuState]:
    try:
        return answers.require_gpus()
    except CannotCheck:
        return []


def backends(answers: Answers) -> Iterator[Finding]:
    """Check that SDPA's backends accept a small fp16 call."""
    if answers.torch is None or not answers.torch.available:
        raise CannotCheck("torch sees no GPU")
    if answers.torch.error:
        raise CannotCheck("torch fails on the GPU")
    if answers.torch.missing:
        yield Finding(
            f"torch {answers.torch.version}",
            f"{', '.join(answers.torch.missing)} cannot be used",
            "python -m torch.utils.collect_env",
            "warning",
        )


def nvcc(answers: Answers) -> Iterator[Finding]:
    """Check that nvcc is on PATH, and not newer than the driver unless code is for this chip
    alone."""
    if "nvcc" in answers.named:
        raise CannotCheck("nvcc is missing: see the level build")
    said = answers.tools.get("nvcc", "")
    if not said:
        yield Finding(
            "PATH", "nvcc is not on PATH", 'export PATH="/usr/local/cuda/bin:$PATH"', "warning"
        )
    elif said.startswith("fails"):
        yield Finding("nvcc --version", said, "nvcc --version")
    elif _is_too_old(answers):
        raise CannotCheck("the driver is too old for torch: fix driver against torch first")
    elif answers.archs == ():
        return  # nothing of it reaches the driver
    elif answers.driver is not None and answers.driver.cuda:
        release = re.search(r"release (\d+)\.(\d+)", said)
        if release is None:
            raise CannotCheck(f"nvcc does not say its version: {said}")
        if int(release[1]) > _version(answers.driver.cuda)[0]:
            yield Finding(
                f"nvcc {release[1]}.{release[2]}",
                f"the driver runs CUDA up to {answers.driver.cuda}",
                f"apt-get install cuda-nvcc-{'-'.join(map(str, _version(answers.driver.cuda)))}"
                "  # or a newer driver",
            )


def ncu(answers: Answers) -> Iterator[Finding]:
    """Check that ncu is on PATH, and that this user may read the counters."""
    said = answers.tools.get("ncu", "")
    if not said:
        yield Finding("PATH", "ncu is not on PATH", "apt-get install nsight-compute", "warning")
    elif said.startswith("fails"):
        yield Finding("ncu --version", said, "ncu --version", "warning")
    elif answers.profiling == "user, admin only":
        yield Finding(
            "/proc/driver/nvidia/params",
            "the driver lets only administrators (CAP_SYS_ADMIN) read the GPU's counters",
            "sudo ncu  # or the driver's option NVreg_RestrictProfilingToAdminUsers=0; "
            "a container: --cap-add SYS_ADMIN",
            "warning",
        )


def _version(text: str) -> tuple[int, int]:
    major, minor, *_ = [*map(int, re.findall(r"\d+", text)), 0, 0]
    return major, minor
