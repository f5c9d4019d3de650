"""The backward on the CPU: flashbench's gradients beside those of SDPA's kernel for CPUs.

python experiments/cpu_backward.py [threads]

Both are called without autograd, in turns; it prints the least time of each. With one thread (the
default) it is CPU time, which other processes disturb least, else wall time.
"""

import math
import sys
import time

import torch

from flashbench.kernels import kernel_call
from flashbench.kernels.kernel_call import Scoring

SHAPES = [
    (1, 1, 128, 64),
    (1, 8, 128, 64),
    (1, 8, 512, 64),
    (1, 8, 2048, 64),
    (1, 8, 512, 128),
    (8, 12, 197, 64),
]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SECONDS = 1.0  # a case

_sdpa = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_sdpa_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def least_times(shape: tuple[int, ...], dtype: torch.dtype, causal: bool) -> list[float]:
    """Seconds of a backward: ours, SDPA's."""
    q, k, v, dout = (torch.randn(shape).to(dtype) for _ in range(4))
    scoring = Scoring(causal, False, None)
    out, lse = kernel_call.forward(q, k, v, scoring, with_lse=True)
    assert lse is not None
    sdpa_out, sdpa_lse = _sdpa(q, k, v, 0.0, causal)
    calls = (
        lambda: kernel_call.backward((q, k, v, out, lse), dout, scoring),
        lambda: _sdpa_backward(dout, q, k, v, sdpa_out, sdpa_lse, 0.0, causal),
    )
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    least = [math.inf, math.inf]
    end = time.perf_counter() + SECONDS
    for turn in range(10**6):
        for i, call in enumerate(calls):
            start = clock()
            call()
            least[i] = min(least[i], clock() - start)
        if turn >= 2 and time.perf_counter() > end:
            break
    return least


def main(threads: int) -> None:
    """Print a line per case and the geometric mean of each dtype."""
    torch.set_num_threads(threads)
    print(
        f"torch {torch.__version__}, {threads} thread(s); GFLOP/s of five products, and the ratio"
    )
    for name, dtype in DTYPES.items():
        logs = []
        for shape in SHAPES:
            for causal in (False, True):
                ours, sdpa = least_times(shape, dtype, causal)
                batch, heads, length, dim = shape
                pairs = length * (length + 1) // 2 if causal else length * length
                work = 10 * batch * heads * pairs * dim / 1e9
                case = f"{','.join(map(str, shape))} {'causal' if causal else 'full'}"
                speeds = f"ours {work / ours:6.0f}  SDPA {work / sdpa:6.0f}"
                print(f"{name} {case:18} {speeds}  {sdpa / ours:5.2f}", flush=True)
                logs.append(math.log(sdpa / ours))
        print(f"{name} geometric mean {math.exp(sum(logs) / len(logs)):.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
