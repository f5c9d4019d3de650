"""Gradients on a GPU: ours beside SDPA's, by CUDA graph replays in turns.

    python experiments/backward_times.py [--sm80] [SHAPE ...]

A shape is batch,heads,kv_heads,length,head_dim. `--sm80` times the kernels of sm_80, also on
Hopper, beside SDPA's flash backend (FlashAttention-2). Prints a row of a table for each shape and
mask: median microseconds of 11 rounds of three replays, TFLOP/s of ours (10 * batch * heads *
length^2 * head_dim operations, half of it if causal), and SDPA's time over ours.
"""

import argparse
import math
import statistics
from collections.abc import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import flashbench
from flashbench.extension import load

SHAPES = (
    "1,8,8,512,64 8,12,12,197,64 4,16,16,1024,64 1,16,16,4096,64 1,16,16,16384,64 "
    "4,16,16,1024,128 2,16,16,2048,128 1,16,16,4096,128 4,32,32,4096,128 1,16,16,16384,128 "
    "1,32,8,4096,128 2,24,24,4096,96 2,16,16,4096,80 2,16,16,4096,112 2,8,8,4096,192 1,8,8,4096,256"
)
ROUNDS = 11
REPLAYS = 3


class Replay:
    """The gradients of one call of `attention`, captured; keeps what the graph reads."""

    def __init__(
        self,
        attention: Callable[..., torch.Tensor],
        inputs: list[torch.Tensor],
        dout: torch.Tensor,
        causal: bool,
    ) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.inputs = [x.clone().requires_grad_() for x in inputs]
            self.out = attention(*self.inputs, is_causal=causal, enable_gqa=True)
            for _ in range(2):
                torch.autograd.grad(self.out, self.inputs, dout, retain_graph=True)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            self.gradients = torch.autograd.grad(self.out, self.inputs, dout, retain_graph=True)

    def microseconds(self) -> float:
        """The time of one replay, the mean of three."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(REPLAYS):
            self.graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / REPLAYS * 1e3


def flash(*inputs: torch.Tensor, **options: bool) -> torch.Tensor:
    """SDPA's flash backend."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return scaled_dot_product_attention(*inputs, **options)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shapes", nargs="*", default=SHAPES.split())
    parser.add_argument("--sm80", action="store_true")
    arguments = parser.parse_args()
    load().cuda_take_sm80_gradients(arguments.sm80)
    sdpa = flash if arguments.sm80 else scaled_dot_product_attention
    print(
        "| B,H,kv,S,D | mask | SDPA us | ours us | TFLOP/s | SDPA/ours |\n|---|---|---|---|---|---|"
    )
    logs = []
    for shape in arguments.shapes:
        batch, heads, kv_heads, length, head_dim = map(int, shape.split(","))
        torch.manual_seed(0)
        q, k, v, dout = (
            torch.randn(batch, h, length, head_dim, device="cuda", dtype=torch.bfloat16)
            for h in (heads, kv_heads, kv_heads, heads)
        )
        for causal in (False, True):
            both = [Replay(f, [q, k, v], dout, causal) for f in (sdpa, flashbench.attention)]
            rounds = [[x.microseconds() for x in both] for _ in range(ROUNDS)]
            theirs, ours = map(statistics.median, zip(*rounds, strict=True))
            operations = 10 * batch * heads * length**2 * head_dim / (2 if causal else 1)
            logs.append(math.log(theirs / ours))
            mask = "causal" if causal else "full"
            print(
                f"| {shape} | {mask} | {theirs:.1f} | {ours:.1f} | {operations / ours / 1e6:.0f} "
                f"| {theirs / ours:.2f} |",
                flush=True,
            )
    print(f"geometric mean {math.exp(statistics.mean(logs)):.3f}, least {math.exp(min(logs)):.3f}")


if __name__ == "__main__":
    main()
