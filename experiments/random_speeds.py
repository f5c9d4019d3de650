"""Time random attention problems beside SDPA's backends, in turns: CUDA graphs, or calls on a CPU.

python experiments/random_speeds.py FILE [--device cpu] [--seconds 60] [--seed 1] [--kinds few,dim]
                                         [--dtypes bf16] [--threads 1]

Prints a line for each problem where a backend of SDPA is within 3 % or ahead, then the geometric
means, and writes all to FILE. One process and a few samples find shapes to measure; they do not
replace that.
"""

import argparse
import json
import math
import random
import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import torch
from random_shapes import KINDS, LIMITS, Problem, random_problem
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as sdpa

from flashbench import attention
from flashbench.measuring import problem
from flashbench.measuring.clock import Call, Clock, MetricUnavailableError, Sampler
from flashbench.measuring.measurement import make_clock
from flashbench.metric import DEFAULT_METRIC

SAMPLE_SECONDS = 1e-3
SAMPLES = 9
BACKENDS = {
    "cuda": {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION},
    "cpu": {"math": SDPBackend.MATH},
}
Times = dict[str, float]


def timed(clock: Clock, metric: str, calls: dict[str, Call]) -> Times:
    """Microseconds of a call of each; what a backend of SDPA refuses is left out."""
    samplers: dict[str, Sampler] = {}
    for name, call in calls.items():
        try:
            samplers[name] = clock.sampler(metric, call)
        except (MetricUnavailableError, RuntimeError) as error:
            if name in ("ours", "default") or isinstance(error, torch.OutOfMemoryError):
                raise
    samples: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(SAMPLES):
        for name, sampler in samplers.items():
            clock.rest()
            samples[name] += sampler.block(1)
    return {name: round(1e6 * statistics.median(taken), 2) for name, taken in samples.items()}


def measured(clock: Clock, device: str, dtype: torch.dtype, one: Problem) -> Times:
    shape = one.shape
    q, k, v = (
        torch.randn(shape.batch, heads, length, shape.head_dim, device=device, dtype=dtype)
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

    calls: dict[str, Call] = {
        "ours": lambda: attention(q, k, v, mask, is_causal=causal, enable_gqa=grouped),
        "default": default,
        **{name: partial(by, backend) for name, backend in BACKENDS[device].items()},
    }
    with torch.no_grad():
        return timed(clock, DEFAULT_METRIC[device], calls)


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def summary(name: str, rows: list[Times]) -> str:
    """SDPA's time over ours, by its default and by the best of its backends."""
    default = [us["default"] / us["ours"] for us in rows]
    best = [min(time for name, time in us.items() if name != "ours") / us["ours"] for us in rows]
    return (
        f"{name}: {len(rows)} problems; SDPA's default takes {geometric_mean(default):.3f} times"
        f" our time, the least {min(default):.3f}; its best backend {geometric_mean(best):.3f}"
        f" and {min(best):.3f}"
    )


def names_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """What splits an argument at its commas, into known names."""

    def names(text: str) -> list[str]:
        found = text.split(",")
        if not set(found) <= set(known):
            raise argparse.ArgumentTypeError(f"choose of {', '.join(dict.fromkeys(known))}")
        return found

    return names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("file", type=Path)
    parser.add_argument("--device", default="cuda", choices=sorted(BACKENDS))
    parser.add_argument("--seconds", default=60.0, type=float)
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--kinds", default=KINDS, type=names_of(KINDS))
    parser.add_argument("--dtypes", default=["bf16"], type=names_of(problem.DTYPES))
    parser.add_argument("--threads", type=int, help="of the CPU")
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    torch.manual_seed(asked.seed)
    if asked.threads:
        torch.set_num_threads(asked.threads)
    clock = make_clock(asked.device, SAMPLE_SECONDS, [DEFAULT_METRIC[asked.device]])
    end = time.monotonic() + asked.seconds
    rows: dict[str, list[Times]] = {}
    cells = []
    while time.monotonic() < end:
        one, dtype = random_problem(rng, rng.choice(asked.kinds)), rng.choice(asked.dtypes)
        if not one.fits(LIMITS[asked.device]):
            continue
        us = measured(clock, asked.device, problem.DTYPES[dtype], one)
        rows.setdefault(f"{one.kind}, {dtype}", []).append(us)
        cells.append(
            {"kind": one.kind, **one.shape.sizes, "dtype": dtype, "mask": one.mask, "us": us}
        )
        if min(time for name, time in us.items() if name != "ours") < 1.03 * us["ours"]:
            print(one, dtype, us, flush=True)
        if asked.device == "cuda":
            torch.cuda.empty_cache()
    asked.file.write_text(json.dumps(cells), encoding="utf-8")
    for name in sorted(rows):
        print(summary(name, rows[name]))


if __name__ == "__main__":
    main()
