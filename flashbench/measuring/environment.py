"""Describe this machine, and its current clocks and temperature. Never changes a setting."""

import contextlib
import os
import platform
import socket
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from flashbench.machine import ask_nvidia_smi, cpu_name
from flashbench.runfile import DeviceState, Environment

# NVML's reasons for lower clocks that say "this machine is in trouble", not "this load is heavy":
# hardware slowdown, software and hardware thermal slowdown, power brake.
_THROTTLED = 0x8 | 0x20 | 0x40 | 0x80


def environment(device: str) -> Environment:
    """The machine and the software of this process; empty strings if unknown."""
    known = Environment(
        hostname=socket.gethostname(),
        cpu=cpu_name(),
        cpu_count=os.cpu_count() or 0,
        threads=torch.get_num_threads(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        cuda=torch.version.cuda or "",
        torch=str(torch.__version__),
        python=platform.python_version(),
        system=platform.platform(),
    )
    if device == "cuda":
        known.gpu = torch.cuda.get_device_name()
        known.driver = _driver()
    return known


def _driver() -> str:
    nvml = _nvml()
    if nvml:
        return str(nvml[0].nvmlSystemGetDriverVersion())
    return ask_nvidia_smi("driver_version")[0]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]"
        return None


@lru_cache(maxsize=1)
def _nvml() -> tuple[Any, Any] | None:
    """NVML and the handle of the device torch uses, or None: clocks stay unknown without it."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
        return pynvml, pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except (pynvml.NVMLError, AttributeError):
        return None


def device_state(device: str) -> DeviceState:
    """Clocks, power and temperature now; None if unknown."""
    state = DeviceState(cpu_mhz=_cpu_mhz())
    with contextlib.suppress(OSError):  # no load average on this system
        state.load_average = os.getloadavg()[0]
    if device != "cuda":
        return state
    nvml = _nvml()
    if nvml is None:
        fields = ask_nvidia_smi("clocks.sm", "power.draw", "temperature.gpu")
        clock, state.power_watts, heat = (_number(text) for text in fields)
        state.sm_clock_mhz = None if clock is None else int(clock)
        state.temperature_celsius = None if heat is None else int(heat)
        return state
    library, handle = nvml
    with contextlib.suppress(library.NVMLError):
        state.sm_clock_mhz = library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM)
    with contextlib.suppress(library.NVMLError):
        state.power_watts = library.nvmlDeviceGetPowerUsage(handle) / 1000
    with contextlib.suppress(library.NVMLError):
        state.temperature_celsius = library.nvmlDeviceGetTemperature(
            handle, library.NVML_TEMPERATURE_GPU
        )
    return state


def throttled(device: str) -> bool:
    """Whether the GPU is now throttled for heat or lack of power (False if unknown).

    A power cap under full load is the normal state of a busy GPU and does not count.
    """
    nvml = _nvml() if device == "cuda" else None
    if nvml is None:
        return False
    library, handle = nvml
    try:
        reasons = library.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    except library.NVMLError:
        return False
    return bool(reasons & _THROTTLED)


def _cpu_mhz() -> float | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    speeds = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    return max(speeds) if speeds else None
