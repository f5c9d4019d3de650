"""What the driver's tools, torch and the file system say of this machine: asked once, then judged.

The answers are data, so that those of another machine can be kept and replayed.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from flashbench.preflight.architectures import Setting
from flashbench.preflight.device.nvidia_smi import Driver, read_driver
from flashbench.preflight.finding import CannotCheck

_SECONDS = 120.0  # for one tool; a first import of torch from a slow disk takes long


@dataclass(frozen=True)
class TorchAnswer:
    """What torch says in a process of its own. cuda: the version it is built for, "" without;
    error: why it sees no device, or cannot be imported; missing: SDPA backends that take no call.
    """

    version: str = ""
    cuda: str = ""
    available: bool = False
    archs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Answers:
    """driver: None without nvidia-smi, which `driver_error` explains. tools: name -> first line of
    its version, or "" when it is not on PATH; profiling: who may read the GPU's counters, "" where
    nobody says. free: bytes on the disks of these folders. archs: that the build has code for, or
    why that is not known.
    """

    driver: Driver | None
    driver_error: str = ""
    torch: TorchAnswer | None = None
    tools: dict[str, str] = field(default_factory=dict)
    profiling: str = ""
    free: dict[str, int] = field(default_factory=dict)
    archs: tuple[str, ...] | CannotCheck = ()
    setting: Setting = field(default_factory=Setting)  # that decides `archs`
    visible: str | None = None  # $CUDA_VISIBLE_DEVICES

    def require_driver(self) -> Driver:
        if self.driver is None:
            raise CannotCheck(self.driver_error)
        return self.driver


def ask(folders: list[Path], archs: tuple[str, ...] | CannotCheck, setting: Setting) -> Answers:
    """Ask this machine. Changes nothing; a tool that fails or hangs is an answer, too."""
    driver, error = None, "nvidia-smi is not on PATH"
    if shutil.which("nvidia-smi"):
        code, text = _run(["nvidia-smi", "-q", "-x"])
        # Not in the document; drivers before 2022 do not know the question.
        asked, said = _run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
        chips = said.split() if asked == 0 else []
        try:
            driver, error = (read_driver(text, chips), "") if code == 0 else (None, _first(text))
        except ElementTree.ParseError:
            error = f"unexpected output of nvidia-smi: {_first(text)}"
    return Answers(
        driver=driver,
        driver_error=error,
        torch=_ask_torch(),
        tools={name: _version(name) for name in ("nvcc", "ncu")},
        profiling=_profiling(Path("/proc/driver/nvidia/params")),
        free={str(folder): shutil.disk_usage(_existing(folder)).free for folder in folders},
        archs=archs,
        setting=setting,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
    )


_TORCH = """
import json, sys
found = {}
try:
    import torch
    found = {"version": torch.__version__, "cuda": torch.version.cuda or ""}
    torch.cuda.init()
    found |= {"available": torch.cuda.is_available(), "archs": torch.cuda.get_arch_list()}
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q = torch.randn(1, 2, 128, 64, device="cuda", dtype=torch.float16)
    missing = []
    for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                torch.nn.functional.scaled_dot_product_attention(q, q, q)
            torch.cuda.synchronize()
        except Exception:
            missing.append(name.removesuffix("_ATTENTION").lower())
    found["missing"] = missing
except BaseException as error:
    found["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


def _ask_torch() -> TorchAnswer | None:
    code, text = _run([sys.executable, "-W", "ignore", "-c", _TORCH], stderr=False)
    try:
        said = json.loads(text.splitlines()[-1])
    except (ValueError, IndexError):
        return TorchAnswer(error=f"importing torch ended with {code}")
    if "No module named 'torch'" in said.get("error", ""):
        return None
    return TorchAnswer(
        version=said.get("version", ""),
        cuda=said.get("cuda", ""),
        available=said.get("available", False),
        archs=tuple(said.get("archs", ())),
        missing=tuple(said.get("missing", ())),
        error=said.get("error", ""),
    )


def _run(command: list[str], *, stderr: bool = True) -> tuple[int, str]:
    errors = subprocess.STDOUT if stderr else subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        return -1, f"{command[0]} did not answer in {_SECONDS:g} s"
    except OSError as error:
        return -1, f"{command[0]} cannot be run: {error.strerror}"
    return done.returncode, done.stdout.decode(errors="replace")


def _version(tool: str) -> str:
    if shutil.which(tool) is None:
        return ""
    code, text = _run([tool, "--version"])
    lines = [line for line in text.splitlines() if "release" in line or "Version" in line]
    return (lines[-1] if lines else _first(text)).strip() if code == 0 else f"fails: {_first(text)}"


def _profiling(file: Path) -> str:
    """`RmProfilingAdminOnly: 1`, as the driver's module says it."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return ""
    root = "root" if os.geteuid() == 0 else "user"
    admin = any(line.replace(" ", "") == "RmProfilingAdminOnly:1" for line in lines)
    return f"{root}, admin only" if admin else f"{root}, everybody"


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _first(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no answer")[:200]
