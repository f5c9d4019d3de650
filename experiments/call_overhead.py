"""Host time of a call: flashbench.attention, its parts, and SDPA.

python experiments/call_overhead.py [cpu|cuda]     (us a call, the best of 100 loops over 20 calls)

On CUDA the calls are queued behind a spinning kernel, so none waits for the GPU; each allocates its
output. "checked" is the path of tensors that are not plain; "launch" is the extension alone, with a
preallocated output, but with scratch memory where a call is two operations; "recorded" is a call of
tensors that require gradients, "gradients" their backward; "empty" is a torch.autograd.Function
that allocates the output and computes nothing. On a CPU the calls compute, so the shape is small.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from msgspec.structs import astuple
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import flashbench.kernels.torch_attention as torch_attention
from flashbench.operations.attention.shapes import Shape, parse_shape

CASES = {
    "cpu": ["1,1,1,32", "1,1,16,64"],
    "cuda": [
        "1,1,32,64",
        "1,8,512,64",
        "8,12,197,64",
        "4,16,1024,64",
        "1,8,512,128",
        "b1-h32-g8-q1-k4096-d128",
        "b1-h16-g2-q1-k32768-d128",  # two operations, as the next one
        "b1-h32-g8-q64-k8192-d128",
    ],
}
CALLS = 20
LOOPS = 100
SPIN_CYCLES = 10_000_000  # longer than one loop of calls


class Empty(torch.autograd.Function):
    """What torch takes to record any function written in Python."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.others = k, v  # of the shapes of their gradients
        return torch.empty_like(q)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return dout, *ctx.others


def host_us(call: Callable[[], object], device: str) -> float:
    """Microseconds of host time per call."""
    best = float("inf")
    for _ in range(LOOPS):
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda._sleep(SPIN_CYCLES)
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - start) / CALLS * 1e6)
    return best


def calls_of(shape: Shape, device: str) -> dict[str, Callable[[], object]]:
    """The calls to compare, on bf16 tensors."""
    q, k, v = (
        torch.randn(shape.batch, heads, length, shape.head_dim, device=device).to(torch.bfloat16)
        for heads, length in (
            (shape.heads, shape.q_len),
            (shape.kv_heads, shape.k_len),
            (shape.kv_heads, shape.k_len),
        )
    )
    out = torch.zeros_like(q)
    gqa = shape.heads != shape.kv_heads
    ours = partial(torch_attention.attention, enable_gqa=gqa)
    sdpa = partial(scaled_dot_product_attention, enable_gqa=gqa)
    calls: dict[str, Callable[[], object]] = {
        "attention": lambda: ours(q, k, v),
        "empty_like": lambda: torch.empty_like(q),
        "checked": lambda: torch_attention._checked_attention(q, k, v, None, False, None, gqa),
        "sdpa": lambda: sdpa(q, k, v),
    }
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    ways: dict[str, Callable[..., Tensor]] = {"": ours, "sdpa ": sdpa, "empty ": Empty.apply}
    for name, attend in ways.items():
        recorded = partial(attend, *leaves)
        calls[f"{name}recorded"] = recorded
        calls[f"{name}gradients"] = partial(
            torch.autograd.grad, recorded(), leaves, out, retain_graph=True
        )
    if device == "cuda":
        problem = (
            *(x.data_ptr() for x in (q, k, v, out)),
            0,
            astuple(shape),
            *(x.stride() for x in (q, k, v, out)),
            shape.head_dim**-0.5,
            *(False, 0, 2),
            torch._C._cuda_getCurrentRawStream(q.device.index),
        )
        calls["launch"] = lambda: torch_attention._C.cuda_attention(*problem)
    return calls


def main(device: str) -> None:
    """Print one line per case."""
    torch.set_num_threads(1)
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU, one thread"
    print(f"torch {torch.__version__}, {name}; us a call on the host")
    for words in CASES[device]:
        calls = calls_of(parse_shape(words), device)
        times = [f"{name} {host_us(call, device):.2f}" for name, call in calls.items()]
        print(f"{words:>24}  {'  '.join(times)}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu")
