"""What driver tools, torch and the file system report of this machine: asked once, then judged.

The answers are data, so another machine's can be kept and replayed.
"""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from flashbench.preflight.architectures import Setting
from flashbench.preflight.device.nvidia_smi import Driver, GpuState, read_driver
from flashbench.preflight.device.torch_answer import TorchAnswer, ask_torch
from flashbench.preflight.device.visible import visible
from flashbench.preflight.finding import CannotCheck
from flashbench.preflight.programs import Answer, ask

_SECONDS = 60.0  # for one tool
# Where WSL and Kubernetes containers keep nvidia-smi if it is not on PATH.
_PLACES = ("/usr/lib/wsl/lib", "/usr/local/nvidia/bin")
_MAY_PROFILE = 1 << 21  # CAP_SYS_ADMIN


@dataclass(frozen=True)
class Answers:
    """driver: None without nvidia-smi, as `driver_error` explains. tools: name -> first line of its
    version, or "" if it is not on PATH; profiling: who may read the GPU's counters, "" if nothing
    says. free: bytes on the disks of these folders. archs: those the build has code for, or why
    they are unknown. named: the checks of lower levels that found an error."""

    driver: Driver | None
    driver_error: str = ""
    torch: TorchAnswer | None = None
    tools: dict[str, str] = field(default_factory=dict)
    profiling: str = ""
    free: dict[str, int] = field(default_factory=dict)
    archs: tuple[str, ...] | CannotCheck = ()
    setting: Setting = field(default_factory=Setting)  # decides `archs`
    chosen: str | None = None  # $CUDA_VISIBLE_DEVICES
    order: str = ""  # $CUDA_DEVICE_ORDER
    named: frozenset[str] = frozenset()

    def require_driver(self) -> Driver:
        if self.driver is None:
            raise CannotCheck(self.driver_error)
        return self.driver

    def require_gpus(self) -> list[GpuState]:
        """The GPUs CUDA sees."""
        listed = self.require_driver().gpus
        found = visible(listed, self.chosen, self.order)
        if not found:
            hidden = "CUDA_VISIBLE_DEVICES hides every GPU"
            raise CannotCheck(hidden if listed else "the driver lists no GPU")
        return found


def ask_machine(
    folders: list[Path],
    archs: tuple[str, ...] | CannotCheck,
    setting: Setting,
    named: frozenset[str],
) -> Answers:
    """Ask this machine; change nothing. A tool that fails or hangs is an answer, too."""
    driver, error = _ask_driver()
    return Answers(
        driver=driver,
        driver_error=error,
        torch=ask_torch(),
        tools={name: _version(name) for name in ("nvcc", "ncu")},
        profiling=_profiling(Path("/proc/driver/nvidia/params"), Path("/proc/self/status")),
        free={str(folder): shutil.disk_usage(_existing(folder)).free for folder in folders},
        archs=archs,
        setting=setting,
        chosen=os.environ.get("CUDA_VISIBLE_DEVICES"),
        order=os.environ.get("CUDA_DEVICE_ORDER", ""),
        named=named,
    )


def _ask_driver() -> tuple[Driver | None, str]:
    """Return the driver's answers, or why there are none."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_PLACES])
    program = shutil.which("nvidia-smi", path=path)
    if program is None:
        return None, "nvidia-smi is not on PATH"
    try:
        said = ask([program, "-q", "-x"], _SECONDS)
        if said.code:
            return None, said.first_line
        # Not in the document; drivers before 2022 do not know the query.
        chips = ask([program, "--query-gpu=compute_cap", "--format=csv,noheader"], _SECONDS)
    except CannotCheck as reason:
        return None, str(reason)
    listed = [line.strip() for line in chips.output.splitlines()] if chips.code == 0 else []
    try:
        return read_driver(said.output, listed), ""
    except ElementTree.ParseError as error:
        return None, f"nvidia-smi is not understood ({error}): {said.first_line}"


def _version(tool: str) -> str:
    if shutil.which(tool) is None:
        return ""
    try:
        said = ask([tool, "--version"], _SECONDS)
    except CannotCheck as reason:
        said = Answer(-1, "", str(reason))
    lines = [line for line in said.output.splitlines() if "release" in line or "Version" in line]
    if said.code:
        return f"fails: {said.first_line}"
    return (lines[-1] if lines else said.first_line).strip()


def _profiling(driver: Path, process: Path) -> str:
    """Read `RmProfilingAdminOnly: 1` from the driver's module; root in a container may not be an
    administrator."""
    try:
        lines = driver.read_text().splitlines()
        held = [one for one in process.read_text().splitlines() if one.startswith("CapEff:")]
    except OSError:
        return ""
    may = bool(held) and bool(int(held[0].partition(":")[2], 16) & _MAY_PROFILE)
    limited = any(line.replace(" ", "") == "RmProfilingAdminOnly:1" for line in lines)
    return f"{'admin' if may else 'user'}, {'admin only' if limited else 'everybody'}"


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())
