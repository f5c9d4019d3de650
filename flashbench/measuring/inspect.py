"""Find the peak memory of one call, and the GPU kernels it runs.

Runs after all timing of the first launch, because both measurements change the process.
"""

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from flashbench import operations
from flashbench.candidates import Loaded
from flashbench.case import Case
from flashbench.measuring.clock import Call
from flashbench.measuring.measurement import OnPhase
from flashbench.measuring.problem import inputs_of
from flashbench.measuring.protocol import Inspected


def inspect_case(
    case: Case, candidates: Sequence[Loaded], seed: int, on_phase: OnPhase
) -> dict[str, Inspected]:
    """Run each candidate a few times on a case that it is known to support."""
    found: dict[str, Inspected] = {}
    with torch.no_grad():
        operation, inputs = operations.of(case), inputs_of(case, seed)
        for loaded in candidates:
            on_phase(loaded.name, "memory and kernels")
            call = operation.bind(loaded.call, inputs)
            with loaded.scope():
                call()
                found[loaded.name] = (
                    _inspect_on_gpu(call)
                    if case.device == "cuda"
                    else Inspected(_peak_on_cpu(call), [])
                )
    return found


def _inspect_on_gpu(call: Call) -> Inspected:
    peak, kernels = _peak_allocated(call), kernels_of(call)
    return Inspected(peak, [name for name, _ in kernels], [seconds for _, seconds in kernels])


def kernels_of(call: Call) -> list[tuple[str, float]]:
    """Kernels, copies and fills of one call, in their order, with the seconds of each."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        call()
        torch.cuda.synchronize()
    events = [e for e in profiler.events() or [] if e.device_type.name == "CUDA"]
    events.sort(key=lambda event: event.time_range.start)
    return [(event.name, event.time_range.elapsed_us() * 1e-6) for event in events]


def _peak_allocated(call: Call) -> int:
    """Bytes beyond the inputs that torch's allocator handed out; misses a cudaMalloc."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = call()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated()
    del out
    return peak - before


def _peak_on_cpu(call: Call) -> int:
    """Bytes beyond the inputs; the larger of two figures, as either may miss something.

    torch's allocator does not see a kernel's own scratch memory; the resident set does not grow
    when the process takes memory that it has already.
    """
    return max(_peak_of_torch(call), _peak_resident(call))


def _peak_of_torch(call: Call) -> int:
    # The core of torch.profiler.profile, which would import torch's compiler (1.6 s).
    with torch.autograd.profiler.profile(profile_memory=True) as profiler:
        out = call()
    del out
    held = peak = 0
    events = [e for e in profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def _peak_resident(call: Call) -> int:
    """Peak growth of the resident set; 0 if unknown."""
    library = ctypes.CDLL(None)
    if sys.platform != "linux" or not hasattr(library, "malloc_trim"):  # musl has none
        return 0
    library.malloc_trim(0)  # return free memory to the system, as far as possible
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    except OSError:
        return 0
    before = _status_bytes("VmRSS")
    out = call()
    peak = _status_bytes("VmHWM")
    del out
    return max(0, peak - before)


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")
