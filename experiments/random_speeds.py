"""Time random attention problems beside SDPA's backends: CUDA graphs, replayed in turns.

python experiments/random_speeds.py FILE SECONDS SEED [KIND,...]

Kinds: decode, chunk (a prompt's next part), dim (any head dim), few (few heads), short. Prints a
line for each problem where a backend of SDPA is within 3 % or ahead, then the geometric means, and
writes all to FILE. One process and a few replays find shapes to measure; they do not replace that.
"""

import json
import math
import random
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as sdpa

from flashbench import attention
from flashbench.measuring.clock import Call, MetricUnavailableError, Sampler
from flashbench.measuring.clock_cuda import CudaClock
from flashbench.operations.attention.shapes import Shape

KINDS = ("decode", "decode", "chunk", "dim", "dim", "few", "short")
MOST_BYTES = 3e9  # of K and V
MOST_PRODUCTS = 4e12
MOST_ROWS = 4e8  # elements of Q
GRAPH_SECONDS = 1e-3
REPLAYS = 9
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


@dataclass(frozen=True)
class Problem:
    kind: str
    shape: Shape
    mask: str  # full, causal or bottom_right

    def is_possible(self) -> bool:
        shape = self.shape
        keys = shape.batch * shape.kv_heads * shape.k_len * shape.head_dim
        rows = shape.batch * shape.heads * shape.q_len * shape.head_dim
        return (
            shape.k_len >= shape.q_len
            and 4 * keys <= MOST_BYTES
            and 4 * rows * shape.k_len <= MOST_PRODUCTS
            and rows <= MOST_ROWS
        )


def between(rng: random.Random, low: int, high: int) -> int:
    """Evenly by the logarithm."""
    return round(low * math.exp(math.log(high / low) * rng.random()))


def problem(rng: random.Random, kind: str) -> Problem:
    dim = rng.choice([64, 128, 256])
    if kind == "decode":
        group, kv_heads = rng.choice([1, 2, 4, 8, 16]), rng.choice([1, 2, 4, 8, 16, 32])
        queries = rng.choice([1, 1, 1, 1, 2, 3, 4, 8, 16])
        batch = between(rng, 1, 256)
        keys = rng.choice([between(rng, 1024, 131072), 1 << rng.randrange(10, 18)])
        mask = "full" if queries == 1 else rng.choice(["full", "bottom_right"])
        return Problem(kind, Shape(batch, kv_heads * group, kv_heads, queries, keys, dim), mask)
    if kind == "chunk":
        group, kv_heads = rng.choice([1, 2, 4, 8]), rng.choice([1, 2, 4, 8, 16])
        batch = rng.choice([1, 1, 2, 4])
        queries = rng.choice([64, 128, 256, 512, 1024, between(rng, 64, 1024)])
        keys = rng.choice([4096, 8192, 16384, 32768, between(rng, 4096, 32768)])
        dim = rng.choice([64, 128, 128, 256])
        mask = rng.choice(["full", "causal", "bottom_right"])
        return Problem(kind, Shape(batch, kv_heads * group, kv_heads, queries, keys, dim), mask)
    mask = rng.choice(["full", "causal"])
    if kind == "dim":
        length = rng.choice([1024, 2048, 4096, 8192, 16384, between(rng, 1024, 16384)])
        heads = rng.choice([4, 8, 12, 16, 24, 32])
        batch = max(1, rng.choice([1, 2, 4]) * 2048 // length)
        dim = 8 * rng.randrange(4, 33)
        return Problem(kind, Shape(batch, heads, heads, length, length, dim), mask)
    if kind == "few":
        length, heads = between(rng, 1024, 16384), rng.choice([1, 2, 3, 4, 5, 6, 8])
        dim = rng.choice([64, 96, 128, 192, 256])
        return Problem(kind, Shape(1, heads, heads, length, length, dim), mask)
    length = rng.choice([64, 77, 128, 197, 256, 384, 512, between(rng, 32, 1024)])
    group, heads = rng.choice([1, 1, 1, 4]), rng.choice([8, 12, 16, 32])
    dim = rng.choice([32, 40, 64, 64, 80, 96, 128, 128, 160, 256])
    batch = between(rng, 4, 128)
    return Problem(kind, Shape(batch, heads, heads // group, length, length, dim), mask)


def timed(clock: CudaClock, calls: dict[str, Call]) -> dict[str, float]:
    """Microseconds of a call of each, in turns; one that a named backend refuses is left out."""
    samplers: dict[str, Sampler] = {}
    for name, call in calls.items():
        try:
            samplers[name] = clock.sampler("graph", call)
        except (MetricUnavailableError, RuntimeError) as error:
            if name not in BACKENDS or isinstance(error, torch.OutOfMemoryError):
                raise
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(REPLAYS):
        for name, sampler in samplers.items():
            samples[name] += sampler.block(1)
    return {name: round(1e6 * statistics.median(seconds), 2) for name, seconds in samples.items()}


def measured(clock: CudaClock, one: Problem) -> dict[str, float]:
    shape = one.shape
    q, k, v = (
        torch.randn(shape.batch, heads, length, shape.head_dim, device="cuda", dtype=torch.bfloat16)
        for heads, length in (
            (shape.heads, shape.q_len),
            (shape.kv_heads, shape.k_len),
            (shape.kv_heads, shape.k_len),
        )
    )
    mask = causal_lower_right(shape.q_len, shape.k_len) if one.mask == "bottom_right" else None
    causal, grouped = one.mask == "causal", shape.heads != shape.kv_heads

    def default() -> Tensor:
        return sdpa(q, k, v, mask, is_causal=causal, enable_gqa=grouped)

    def by(backend: SDPBackend) -> Tensor:
        with sdpa_kernel(backend):
            return default()

    return timed(
        clock,
        {
            "ours": lambda: attention(q, k, v, mask, is_causal=causal, enable_gqa=grouped),
            "default": default,
            **{name: partial(by, backend) for name, backend in BACKENDS.items()},
        },
    )


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def main(path: Path, seconds: float, seed: int, kinds: tuple[str, ...]) -> None:
    rng = random.Random(seed)
    torch.manual_seed(seed)
    clock = CudaClock(GRAPH_SECONDS)
    end = time.monotonic() + seconds
    rows: list[tuple[Problem, dict[str, float]]] = []
    while time.monotonic() < end:
        one = problem(rng, rng.choice(kinds))
        if not one.is_possible():
            continue
        us = measured(clock, one)
        rows.append((one, us))
        if min(time for name, time in us.items() if name != "ours") < 1.03 * us["ours"]:
            print(one, us, flush=True)
        torch.cuda.empty_cache()
    cells = [{"kind": one.kind, **one.shape.sizes, "mask": one.mask, "us": us} for one, us in rows]
    path.write_text(json.dumps(cells), encoding="utf-8")
    for kind in sorted({one.kind for one, _ in rows}):
        default, best = (
            [
                min(time for name, time in us.items() if name in names) / us["ours"]
                for one, us in rows
                if one.kind == kind
            ]
            for names in (("default",), ("default", *BACKENDS))
        )
        print(
            f"{kind}: {len(default)} problems; SDPA's default takes {geometric_mean(default):.3f}"
            f" times our time, the least {min(default):.3f}; its best backend"
            f" {geometric_mean(best):.3f} and {min(best):.3f}"
        )


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        float(sys.argv[2]),
        int(sys.argv[3]),
        tuple(sys.argv[4].split(",")) if len(sys.argv) > 4 else KINDS,
    )
