"""The GPU is free, whole, unthrottled and has room: its present state decides what is measured."""

import os
from collections.abc import Callable, Iterator
from functools import wraps

from flashbench.preflight.device.answers import Answers
from flashbench.preflight.device.nvidia_smi import GpuState
from flashbench.preflight.finding import CannotCheck, Finding

# Reasons that slow the chip down unasked.
_FORCED = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
_LEAST_DISK = 2 << 30  # bytes: a build of CUDA units with its objects
_LEAST_MEMORY = 0.5  # of the GPU's memory, free
_BUSY = 25.0  # percent

_Looked = Iterator[Finding | CannotCheck]


def _of_each_gpu(look: Callable[[GpuState], _Looked]) -> Callable[[Answers], _Looked]:
    """Run a check of one GPU on every GPU CUDA sees."""

    @wraps(look)
    def of_all(answers: Answers) -> _Looked:
        for gpu in answers.require_gpus():
            yield from look(gpu)

    return of_all


def _not_said(gpu: GpuState, what: str) -> CannotCheck:
    return CannotCheck(f"the driver does not say {what} of {gpu.name}")


@_of_each_gpu
def other_processes(gpu: GpuState) -> _Looked:
    others = [one for one in gpu.processes if one.pid != os.getpid()]
    if others:
        listed = ", ".join(f"{one.name} ({one.pid})" for one in others[:4])
        yield Finding(
            gpu.name,
            f"{len(others)} on it: {listed}",
            "nvidia-smi  # wait for them, or choose another GPU by CUDA_VISIBLE_DEVICES",
            "warning" if all(one.graphics for one in others) else "error",
        )
    elif gpu.persistence and (gpu.utilization or 0) > _BUSY:  # else the driver itself is busy
        yield Finding(
            gpu.name,
            f"is {gpu.utilization:.0f} % busy with processes not visible here, as in another "
            "container",
            "nvidia-smi  # on the host; wait, or choose another GPU by CUDA_VISIBLE_DEVICES",
            "warning",
        )


@_of_each_gpu
def mig(gpu: GpuState) -> _Looked:
    if gpu.instances:
        yield Finding(
            gpu.name,
            f"is cut into instances: {gpu.instances}",
            "nvidia-smi mig -lgi  # its owner can switch it off; measure a whole GPU elsewhere",
            "warning",
        )
    elif gpu.instances == 0:
        yield Finding(
            gpu.name,
            "MIG is on, and there is no instance: CUDA sees nothing of it",
            "nvidia-smi mig -lgip  # its owner can make instances, or switch it off",
        )


@_of_each_gpu
def compute_mode(gpu: GpuState) -> _Looked:
    if not gpu.compute_mode:
        yield _not_said(gpu, "the compute mode")
    elif gpu.compute_mode not in ("Default", "0"):
        yield Finding(
            gpu.name,
            f"is {gpu.compute_mode}",
            "nvidia-smi -q -d COMPUTE  # its owner can set it to Default",
            "error" if "Prohibited" in gpu.compute_mode else "warning",
        )


@_of_each_gpu
def ecc(gpu: GpuState) -> _Looked:
    found = []
    if gpu.ecc_errors:
        found.append(f"{gpu.ecc_errors} uncorrected errors since the driver was loaded")
    if gpu.retired_pending:
        found.append("memory waits for a reset to be replaced")
    if gpu.unrepaired:
        found.append("memory has failed that cannot be replaced")
    if found:
        yield Finding(gpu.name, ", ".join(found), "nvidia-smi -q -d ECC,ROW_REMAPPER")


@_of_each_gpu
def throttling(gpu: GpuState) -> _Looked:
    if gpu.throttled is None:
        yield _not_said(gpu, "what limits the clocks")
    elif forced := [reason for reason in gpu.throttled if reason in _FORCED]:
        warm = f" at {gpu.temperature:.0f} degrees" if gpu.temperature is not None else ""
        yield Finding(
            gpu.name, f"{', '.join(forced)}{warm}", "nvidia-smi -q -d PERFORMANCE,TEMPERATURE"
        )


@_of_each_gpu
def clocks(gpu: GpuState) -> _Looked:
    """Find clocks that someone chose: an application clock, or a limit active at rest."""
    limits = ("applications_clocks_setting", "sync_boost")
    if gpu.fixed_clock is not None or any(one in limits for one in gpu.throttled or ()):
        speed = f" of {gpu.fixed_clock:.0f} MHz" if gpu.fixed_clock is not None else ""
        yield Finding(
            gpu.name,
            f"runs at a chosen clock{speed}",
            "nvidia-smi -q -d CLOCK  # compare only with runs at the same clock",
            "warning",
        )
    elif gpu.throttled is None:
        yield _not_said(gpu, "what limits the clocks")


@_of_each_gpu
def power(gpu: GpuState) -> _Looked:
    limit, default = gpu.power_limit, gpu.default_power_limit
    if limit is None or default is None:
        yield _not_said(gpu, "the power limit")
    elif limit < 0.99 * default:
        yield Finding(
            gpu.name,
            f"it was set to {limit:.0f} W; the default is {default:.0f} W",
            "nvidia-smi -q -d POWER  # compare only with runs at the same limit",
            "warning",
        )


@_of_each_gpu
def persistence(gpu: GpuState) -> _Looked:
    if gpu.persistence is None:
        yield _not_said(gpu, "the persistence mode")
    elif not gpu.persistence:
        yield Finding(
            gpu.name,
            "persistence mode is off",
            "nvidia-smi -q | grep -i persistence  # its owner can switch it on",
            "warning",
        )


@_of_each_gpu
def memory(gpu: GpuState) -> _Looked:
    if not gpu.memory_total or gpu.memory_used is None:
        yield _not_said(gpu, "the memory")
        return
    free = gpu.memory_total - gpu.memory_used
    if free < _LEAST_MEMORY * gpu.memory_total:
        yield Finding(
            gpu.name,
            f"{free / 2**30:.1f} of {gpu.memory_total / 2**30:.1f} GiB are free",
            "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
            "warning",
        )


def disk(answers: Answers) -> Iterator[Finding]:
    for folder, free in answers.free.items():
        if free < _LEAST_DISK:
            yield Finding(
                folder,
                f"{free / 2**30:.2f} GiB are free; a build with CUDA takes up to 2",
                "flashbench builds --prune  # or set FLASHBENCH_CACHE to a larger disk",
            )
