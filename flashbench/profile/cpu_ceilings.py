"""This CPU's peak rates with torch's threads: products from registers, copies, calls.

Exponentials have no ceiling here: vectorized ones are polynomials, arithmetic like the rest.
"""

from typing import Any

import torch

from flashbench.errors import FlashbenchError
from flashbench.extension import build_info, load
from flashbench.measuring.clock import Call
from flashbench.measuring.clock_cpu import CpuClock

_SAMPLES = 12
_MIN_SAMPLE_SECONDS = 2e-3
_SIZE = 1024
_COPY_BYTES = 1 << 27
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def measure() -> dict[str, Any]:
    """The fields of `machine.Ceilings`, in about 2 s."""
    clock = CpuClock(_MIN_SAMPLE_SECONDS)
    one = torch.zeros(1)
    return {
        "flops": {name: _products(clock, name) for name in _DTYPES},
        "bytes_per_second": _copies(clock),
        "launch_seconds": {"wall": _best(clock, one.neg_)},
    }


def _best(clock: CpuClock, call: Call) -> float:
    """Seconds of the fastest sample: a ceiling need be reached only once."""
    return min(clock.sampler("wall", call).block(_SAMPLES))


def _products(clock: CpuClock, dtype: str) -> float:
    """Operations per second, by torch or our own units from registers, whichever is faster."""
    best = 0.0
    if dtype == "fp32":  # torch's other dtypes are slow on some CPUs, and no ceiling
        a, b = torch.randn(_SIZE, _SIZE), torch.randn(_SIZE, _SIZE)
        out = torch.empty_like(a)
        best = 2 * _SIZE**3 / _best(clock, lambda: torch.matmul(a, b, out=out))
    try:
        if dtype in build_info().cpu_dtypes:
            code = ("fp32", "fp16", "bf16").index(dtype)  # the order of `enum class Dtype`
            best = max(best, float(load().cpu_peak(code, torch.get_num_threads())))
    except FlashbenchError:
        pass  # no extension here: another project
    return best


def _copies(clock: CpuClock) -> float:
    source = torch.zeros(_COPY_BYTES // 4, dtype=torch.int32)
    target = torch.empty_like(source)
    return 2 * source.nbytes / _best(clock, lambda: target.copy_(source))
