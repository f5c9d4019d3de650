"""The GPU is free, whole, unthrottled and has room: what it is now decides what is measured."""

import os
from collections.abc import Iterator

from flashbench.preflight.device.answers import Answers
from flashbench.preflight.finding import Finding

# Reasons that slow the chip down without anybody having asked for it.
_FORCED = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown")
_LEAST_DISK = 2 << 30  # bytes: a build of CUDA units with its objects
_LEAST_MEMORY = 0.5  # of a GPU's, free


def other_processes(answers: Answers) -> Iterator[Finding]:
    for gpu in answers.require_driver().gpus:
        others = [(pid, name) for pid, name in gpu.processes if pid != os.getpid()]
        if others:
            listed = ", ".join(f"{name} ({pid})" for pid, name in others[:4])
            yield Finding(
                gpu.name,
                f"{len(others)} on it: {listed}",
                "nvidia-smi  # wait for them, or choose another GPU by CUDA_VISIBLE_DEVICES",
            )


def mig(answers: Answers) -> Iterator[Finding]:
    for gpu in answers.require_driver().gpus:
        if gpu.mig:
            yield Finding(
                gpu.name,
                "is cut into instances",
                "nvidia-smi mig -lgi  # its owner can switch it off; measure a whole GPU elsewhere",
                "warning",
            )


def compute_mode(answers: Answers) -> Iterator[Finding]:
    for gpu in answers.require_driver().gpus:
        if gpu.compute_mode not in ("Default", "0"):
            prohibited = "Prohibited" in gpu.compute_mode
            yield Finding(
                gpu.name,
                f"is {gpu.compute_mode}",
                "nvidia-smi -q -d COMPUTE  # its owner can set it to Default",
                "error" if prohibited else "warning",
            )


def ecc(answers: Answers) -> Iterator[Finding]:
    for gpu in answers.require_driver().gpus:
        if gpu.ecc_errors or gpu.retired_pending:
            found = f"{gpu.ecc_errors} uncorrected errors since the driver was loaded"
            if gpu.retired_pending:
                found += ", memory waits for a reset to be replaced"
            yield Finding(gpu.name, found, "nvidia-smi -q -d ECC,ROW_REMAPPER")


def throttling(answers: Answers) -> Iterator[Finding]:
    for gpu in answers.require_driver().gpus:
        forced = [reason for reason in gpu.throttled if reason in _FORCED]
        if forced:
            warm = f" at {gpu.temperature:.0f} degrees" if gpu.temperature is not None else ""
            yield Finding(
                gpu.name,
                f"{', '.join(forced)}{warm}",
                "nvidia-smi -q -d PERFORMANCE,TEMPERATURE",
            )


def clocks(answers: Answers) -> Iterator[Finding]:
    """Clocks that were chosen: an application clock, or a limit that is active at rest."""
    for gpu in answers.require_driver().gpus:
        chosen = [r for r in gpu.throttled if r in ("applications_clocks_setting", "sync_boost")]
        if gpu.fixed_clock is not None or chosen:
            speed = f" of {gpu.fixed_clock:.0f} MHz" if gpu.fixed_clock is not None else ""
            yield Finding(
                gpu.name,
                f"runs at a chosen clock{speed}",
                "nvidia-smi -q -d CLOCK  # compare only with runs at the same clock",
                "warning",
            )


def power(answers: Answers) -> Iterator[Finding]:
    for gpu in answers.require_driver().gpus:
        limit, default = gpu.power_limit, gpu.default_power_limit
        if limit is not None and default is not None and limit < 0.99 * default:
            yield Finding(
                gpu.name,
                f"somebody set it to {limit:.0f} W; the default is {default:.0f} W",
                "nvidia-smi -q -d POWER  # compare only with runs at the same limit",
                "warning",
            )


def persistence(answers: Answers) -> Iterator[Finding]:
    for gpu in answers.require_driver().gpus:
        if not gpu.persistence:
            yield Finding(
                gpu.name,
                "persistence mode is off",
                "nvidia-smi -q | grep -i persistence  # its owner can switch it on",
                "warning",
            )


def memory(answers: Answers) -> Iterator[Finding]:
    for gpu in answers.require_driver().gpus:
        if gpu.memory_total and gpu.memory_used is not None:
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
