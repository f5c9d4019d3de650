"""This GPU's peak rates: matrix products, copies, exponentials, empty calls.

Each is timed by the clocks that time candidates, so that floors and times are comparable.
"""

from typing import Any

import torch

from flashbench.measuring.clock import Call
from flashbench.measuring.clock_cuda import CudaClock
from flashbench.metric import metrics_of

_SAMPLES = 24
_MIN_SAMPLE_SECONDS = 1e-4
_PRODUCT_SIZES = {"fp16": (4096, 8192), "bf16": (4096, 8192), "fp32": (4096,)}
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
_LEAST_COPY_BYTES = 1 << 28
_THREADS = 1 << 20
_EXPONENTIALS_A_THREAD = 512
# Four chains per thread hide each other's latency; approximate, as in attention kernels.
_EXPONENTIALS = """
template <typename T> T exponentials(T x) {
    T a = x, b = x + T(1), c = x + T(2), d = x + T(3);
    #pragma unroll 16
    for (int i = 0; i < 128; ++i) {
        asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(a));
        asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(b));
        asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(c));
        asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(d));
    }
    return a + b + c + d;
}
"""


def measure() -> dict[str, Any]:
    """The fields of `machine.Ceilings` for the current device, in about 3 s."""
    clock = CudaClock(_MIN_SAMPLE_SECONDS)
    cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    return {
        "flops": {name: _products(clock, name) for name in _DTYPES},
        "bytes_per_second": _copies(clock, max(_LEAST_COPY_BYTES, 8 * cache)),
        "cached_bytes_per_second": max(_copies(clock, cache // part) for part in (4, 6, 8, 12)),
        "cache_bytes": cache,
        "exponentials": _exponentials(clock),
        "launch_seconds": _launches(clock),
    }


def _best(clock: CudaClock, call: Call, metric: str = "gpu_warm") -> float:
    """Seconds of the fastest sample: a ceiling need be reached only once."""
    return min(clock.sampler(metric, call).block(_SAMPLES))


def _products(clock: CudaClock, dtype: str) -> float:
    """Operations per second of cuBLAS; fp32 without TF32, torch's default."""
    best = 0.0
    for size in _PRODUCT_SIZES[dtype]:
        a, b = (torch.randn(size, size, device="cuda").to(_DTYPES[dtype]) for _ in range(2))
        out = torch.empty_like(a)

        def call(a: torch.Tensor = a, b: torch.Tensor = b, out: torch.Tensor = out) -> torch.Tensor:
            return torch.matmul(a, b, out=out)

        best = max(best, 2 * size**3 / _best(clock, call))
    return best


def _copies(clock: CudaClock, size: int) -> float:
    """Bytes read and written per second by a copy of `size` bytes."""
    source = torch.zeros(size // 4, dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / _best(clock, lambda: target.copy_(source))


def _exponentials(clock: CudaClock) -> float | None:
    """Exponentials per second from registers; None if torch cannot compile a kernel here."""
    try:
        kernel = torch.cuda.jiterator._create_jit_fn(_EXPONENTIALS)
        x = torch.zeros(_THREADS, device="cuda")
        kernel(x)
    except (AttributeError, RuntimeError):
        return None
    return _EXPONENTIALS_A_THREAD * _THREADS / _best(clock, lambda: kernel(x))


def _launches(clock: CudaClock) -> dict[str, float]:
    """Seconds of an empty kernel, by metric."""
    nothing = torch.empty(1, device="cuda")

    def call() -> torch.Tensor:
        torch.cuda._sleep(0)
        return nothing

    return {metric: _best(clock, call, metric) for metric in metrics_of("cuda")}
