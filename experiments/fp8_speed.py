"""The e4m3 attention beside our bf16 one and SDPA: times and errors, for docs/lab/cuda-kernels.md.

python experiments/fp8_speed.py     (a Hopper GPU; N(0, 1) inputs; about 20 s)

Times are us per call of interleaved CUDA-graph replays, medians of 15 rounds. "fp8" is attention of
already quantised tensors, "quantise" the quantiser alone (torch operations). Errors are those of
e4m3 attention relative to exact attention of the quantised inputs, largest and rms, for one head.
`flashbench run` cannot measure it: by its rule, twice SDPA's error, the result is wrong.
"""

import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from flashbench import attention
from flashbench.kernels import fp8
from flashbench.operations.attention import truth as reference

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from e4m3_rule import dequantize

SHAPES = [(1, 16, 4096, 64), (1, 16, 16384, 64), (1, 16, 4096, 128), (1, 16, 16384, 128)]
ROUNDS = 15
GRAPH_SECONDS = 2e-3


def graph_of(call: Callable[[], object]) -> tuple[torch.cuda.CUDAGraph, int]:
    """Capture enough calls to fill some milliseconds; returns their number too."""
    for _ in range(2):
        call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    calls = max(1, min(20, round(GRAPH_SECONDS / (begin.elapsed_time(end) * 1e-3))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph, calls


def times_us(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median us per call of each, replayed in turns, forward and backward."""
    graphs = {name: graph_of(call) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS + 1):
        for name in list(graphs)[:: 1 if turn % 2 else -1]:
            graph, count = graphs[name]
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            if turn:  # the first round warms up
                times[name].append(begin.elapsed_time(end) * 1e3 / count)
    return {name: statistics.median(samples) for name, samples in times.items()}


def calls_of(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> dict[str, Callable[[], object]]:
    """The timed calls."""
    quantized = fp8.quantize_e4m3(q, k, v)
    return {
        "sdpa": lambda: scaled_dot_product_attention(q, k, v, is_causal=causal),
        "bf16": lambda: attention(q, k, v, is_causal=causal),
        "fp8": lambda: fp8.attention_e4m3(quantized, is_causal=causal),
        "quantise": lambda: fp8.quantize_e4m3(q, k, v),
    }


def error_ratios(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[float, float]:
    """Largest and rms error relative to exact attention of the quantised inputs."""
    quantized = fp8.quantize_e4m3(q, k, v)
    expected = reference.attention(q, k, v, is_causal=causal)
    unavoidable = reference.attention(*dequantize(quantized), is_causal=causal) - expected
    error = fp8.attention_e4m3(quantized, is_causal=causal).double() - expected
    largest = error.abs().max() / unavoidable.abs().max()
    return largest.item(), (error.norm() / unavoidable.norm()).item()


def main() -> None:
    """A Markdown table."""
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    print("| B,H,S,D | | fp8 us | TFLOP/s | bf16 us | SDPA us | bf16 / fp8 | SDPA / fp8 ", end="")
    print("| quantise us | largest error | rms error |")
    print("|---" * 11 + "|")
    for shape in SHAPES:
        for causal in (False, True):
            q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
            us = times_us(calls_of(q, k, v, causal))
            largest, rms = error_ratios(*(x[:, :1] for x in (q, k, v)), causal)
            batch, heads, length, head_dim = shape
            flops = 4 * batch * heads * length**2 * head_dim / (2 if causal else 1)
            print(
                f"| {','.join(map(str, shape))} | {'causal' if causal else 'full'} "
                f"| {us['fp8']:.1f} | {flops / us['fp8'] / 1e6:.0f} | {us['bf16']:.1f} "
                f"| {us['sdpa']:.1f} | {us['bf16'] / us['fp8']:.2f} "
                f"| {us['sdpa'] / us['fp8']:.2f} | {us['quantise']:.0f} | {largest:.2f} "
                f"| {rms:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
