"""Peak memory of one call beyond its inputs, in bytes; the output is part of it."""

import ctypes
import sys
from pathlib import Path

import torch

from flashbench.measure.clock import Call


def peak_bytes(call: Call, device: str) -> int | None:
    """Run the call once and say how much memory it had at its peak; None where unknown.

    On a GPU: what torch's allocator handed out (a kernel's own cudaMalloc is not seen). On the
    CPU (Linux): growth of the resident set, in pages, after free memory went back to the system.
    """
    return _peak_cuda(call) if device == "cuda" else _peak_resident(call)


def _peak_cuda(call: Call) -> int:
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out = call()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated()
    del out
    return peak - before


def _peak_resident(call: Call) -> int | None:
    if sys.platform != "linux":
        call()
        return None
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it, musl has not
    if trim is None:
        call()
        return None
    trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    except OSError:
        call()
        return None
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
