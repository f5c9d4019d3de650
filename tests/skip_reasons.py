"""Every reason to skip a test, and the evidence that it holds on this machine.

The evidence lies elsewhere than what the skip goes by: the driver's device files rather than torch,
an installed package rather than one that imports. A test that is skipped because something is
broken, rather than absent, fails (tests/conftest.py).
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from cluster.slurm_node import lacking

Evidence = Callable[[], bool]
_CUDA = os.pathsep.join([os.environ["PATH"], "/usr/local/cuda/bin"])
_CHROMIUM = (
    *("chromium-headless-shell", "chromium", "chromium-browser"),
    *("google-chrome", "google-chrome-stable", "chrome"),
)


def no_python_3_13() -> bool:
    """None with headers that `make wheel` would take."""
    from build_wheels import find_python  # scripts/ is on the path of our own tests alone

    return find_python("3.13") is None


def no_gpu() -> bool:
    """No device file of NVIDIA's driver, or a torch that was built without CUDA."""
    import torch

    return not list(Path("/dev").glob("nvidia[0-9]*")) or torch.version.cuda is None


def no_hopper() -> bool:
    """The GPU is of another generation."""
    import torch

    return torch.cuda.get_device_capability()[0] != 9


def little_gpu_memory() -> bool:
    """Less than 25 GB are free."""
    import torch

    return torch.cuda.mem_get_info()[0] < 25e9


def old_torch() -> bool:
    """The exchange API came with torch 2.10."""
    import torch

    return tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10)


def missing(*programs: str) -> Evidence:
    """At least one of the programs is not installed."""
    return lambda: not all(shutil.which(name, path=_CUDA) for name in programs)


def uninstalled(package: str) -> Evidence:
    """The package is not there."""
    return lambda: importlib.util.find_spec(package) is None


def no_mounts() -> bool:
    """The kernel grants this user no file system of their own."""
    rights = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    mount = ["mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(["unshare", *rights, *mount], capture_output=True).returncode != 0


def no_index() -> bool:
    """pip finds no package that is not installed."""
    with tempfile.TemporaryDirectory() as place:
        download = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", place, "click"]
        return subprocess.run(download, capture_output=True).returncode != 0


def partial_clone() -> bool:
    """The tree is no git repository, or one that lacks history."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--is-shallow-repository"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip() != "false"


def no_mkl() -> bool:
    """By how torch says it was built."""
    import torch

    return "USE_MKL=ON" not in torch.__config__.show()


# What a reason begins with, and whether it holds here.
REASONS: dict[str, Evidence] = {
    "torch sees no CUDA device": no_gpu,
    "this machine has a CUDA device": lambda: not no_gpu(),
    "flashbench._C was built without": missing("nvcc"),
    "the e4m3 kernels need a Hopper GPU": no_hopper,
    "tails are divided on Hopper GPUs alone": no_hopper,
    "needs 25 GB of free GPU memory": little_gpu_memory,
    "compute-sanitizer is not installed": missing("compute-sanitizer"),
    "perf is not installed": missing("perf"),
    # Only compute-sanitizer itself can know.
    "compute-sanitizer does not support this machine's driver": lambda: True,
    "no Chromium here": lambda: not any(map(shutil.which, _CHROMIUM)),
    "no playwright": uninstalled("playwright"),
    "no axe": uninstalled("axe_playwright_python"),
    "no mkdocs-material": uninstalled("material"),
    "matplotlib is not installed": uninstalled("matplotlib"),
    "matplotlib is installed": lambda: not uninstalled("matplotlib")(),
    "no Slurm here": lambda: bool(lacking()),
    "no sshd here": lambda: not shutil.which("sshd", path=f"{_CUDA}:/usr/sbin:/sbin"),
    "no SkyPilot here": lambda: not (Path(__file__).parents[1] / ".venv-cloud").exists(),
    "submitit is not installed": uninstalled("submitit"),
    "no asv": uninstalled("asv"),
    "PyYAML comes with asv": uninstalled("yaml"),
    "pybind11 is not installed": uninstalled("pybind11"),
    "arch is not installed": uninstalled("arch"),
    "auditwheel is not installed": uninstalled("auditwheel"),
    "check-jsonschema is not installed": uninstalled("check_jsonschema"),
    "no Python 3.13 here": no_python_3_13,
    "no index of packages here": no_index,
    "no emulator of Arm": missing("cmake", "ninja", "aarch64-linux-gnu-g++", "qemu-aarch64"),
    "no nvcc here": missing("nvcc"),
    "no unshare": missing("unshare"),
    "a file system cannot be mounted here": no_mounts,
    "no clone with the whole history": partial_clone,
    "the CPU does not say what it is": lambda: (
        "model name" not in Path("/proc/cpuinfo").read_text()
    ),
    "this CPU has no AMX": lambda: "amx_tile" not in Path("/proc/cpuinfo").read_text(),
    "one process does it all": lambda: len(os.sched_getaffinity(0)) < 2,
    "this torch has no exchange API": old_torch,
    "this torch has no MKL": no_mkl,
}


def fault(reason: str) -> str:
    """What is wrong with skipping a test for `reason`; nothing where it holds."""
    for beginning, holds in REASONS.items():
        if reason.startswith(beginning):
            return "" if holds() else f"skipped ({reason}), which is not so on this machine"
    return f"skipped ({reason}), which tests/skip_reasons.py does not list"
