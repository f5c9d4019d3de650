"""The CPU kernels against SDPA over the grid with performance targets: docs/lab/cpu-kernels.md.

python experiments/cpu_targets.py --threads 1,2 -o results/cpu-targets/NAME.json
python experiments/cpu_targets.py --from results/cpu-targets/NAME.json      (its tables once more)

Each cell alternates `flashbench.attention` and SDPA in one process: the median time of a call of
each. A cell whose first and second half disagree is measured again for longer, up to twice; the
last measurement counts. With --seconds 0.1 and no --other-dims a number of threads took 4 to 5
minutes on two Zen 4 cores. Tables go to stdout, each cell to the file.

With AVX2 alone on both sides: --isa avx2, and in the environment ATEN_CPU_CAPABILITY=avx2,
MKL_ENABLE_INSTRUCTIONS=AVX2 and ONEDNN_MAX_CPU_ISA=AVX2. For one thread, pin the process: taskset.
Where there are cores, the parts of the grid can be measured side by side, each pinned to a core and
with a file of its own; --from takes several files, and -o puts them together.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from flashbench import attention
from flashbench.extension import load
from flashbench.measuring.environment import cpu_name

_C = load()
Cell = dict[str, Any]

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
CODES = {"fp32": 0, "fp16": 1, "bf16": 2}
LENGTHS = [16, 32, 128, 197, 512, 1024, 2048]
SHORT, LONG = 32, 512
OTHER_DIMS = [32, 80, 96, 256]
# Ratios of medians, SDPA / ours: at every cell, and their geometric mean.
TARGETS = {
    ("fp32", "full"): (1.0, 1.25),
    ("fp32", "causal"): (1.2, 1.8),
    ("bf16", "full"): (1.2, 2.0),
    ("bf16", "causal"): (1.5, 3.0),
    ("fp16", "full"): (1.5, 3.0),
    ("fp16", "causal"): (2.0, 4.0),
}
SHORT_TARGET = (1.0, 1.5)
OTHER_LEAST = 0.9
PEAK_SHARES = {"fp32": 0.70, "bf16": 0.55}
LARGEST = 3e11  # operations of a cell without a mask: all of the grid
LARGEST_OTHER = 2e10
SAMPLE_SECONDS = 5e-4
AGREEMENT = 0.05


def cells(arguments: argparse.Namespace) -> Iterator[Cell]:
    """The grid, and the head dims beside it."""
    dims = [*arguments.dims, *arguments.other_dims]
    shapes = itertools.product(dims, arguments.heads, arguments.lengths)
    groups = itertools.product(arguments.threads, arguments.dtypes, arguments.masks)
    for (threads, dtype, mask), (dim, heads, length) in itertools.product(groups, shapes):
        largest = LARGEST_OTHER if dim in OTHER_DIMS else LARGEST
        if 4 * heads * length**2 * dim <= largest:
            yield {
                **{"threads": threads, "dtype": dtype, "mask": mask},
                **{"heads": heads, "length": length, "head_dim": dim},
            }


def seconds_a_call(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def alternate(calls: list[Callable[[], object]], seconds: float) -> tuple[list[float], float]:
    """Each one's median seconds per call, and the relative difference of the halves' ratios."""
    first_calls = [seconds_a_call(call, 1) for call in calls]
    if max(first_calls) < seconds:  # else warm enough
        first_calls = [seconds_a_call(call, 2) for call in calls]
    repeats = [max(1, int(SAMPLE_SECONDS / first)) for first in first_calls]
    fewest = 6 if max(first_calls) < 1 else 2
    samples: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while len(samples[0]) < fewest or (time.perf_counter() < end and len(samples[0]) < 200):
        order = range(len(calls)) if len(samples[0]) % 2 else reversed(range(len(calls)))
        for which in order:
            samples[which].append(seconds_a_call(calls[which], repeats[which]))
    middle = len(samples[0]) // 2
    ours, theirs = samples
    first = statistics.median(theirs[:middle]) / statistics.median(ours[:middle])
    second = statistics.median(theirs[middle:]) / statistics.median(ours[middle:])
    return [statistics.median(x) for x in samples], max(first, second) / min(first, second) - 1


def measure(cell: Cell, seconds: float) -> Cell:
    """The cell with its medians in seconds, ratio, and operations per second (unmasked pairs)."""
    torch.set_num_threads(cell["threads"])
    shape = (1, cell["heads"], cell["length"], cell["head_dim"])
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(shape, generator=random).to(DTYPES[cell["dtype"]]) for _ in range(3))
    causal = cell["mask"] == "causal"
    calls: list[Callable[[], object]] = [
        lambda: attention(q, k, v, is_causal=causal),
        lambda: scaled_dot_product_attention(q, k, v, is_causal=causal),
    ]
    for again in range(3):
        (ours, theirs), disagreement = alternate(calls, seconds * 2**again)
        if disagreement < AGREEMENT or ours + theirs > 1:
            break
    length = cell["length"]
    pairs = length * (length + 1) // 2 if causal else length**2
    operations = 4 * cell["heads"] * pairs * cell["head_dim"]
    found = {
        **{"ours": ours, "sdpa": theirs, "ratio": theirs / ours, "flops": operations / ours},
        "disagreement": disagreement,
    }
    return {**cell, **{name: float(f"{value:.4g}") for name, value in found.items()}}


def row(title: str, found: list[Cell], least: float, mean: float | None) -> str:
    """A group's geometric mean and worst cells, and whether they reach the targets."""
    ratios = [cell["ratio"] for cell in found]
    geometric = math.exp(statistics.fmean(map(math.log, ratios)))
    worst = sorted(found, key=lambda cell: cell["ratio"])[:3]
    shapes = ", ".join(
        f"{c['heads']},{c['length']},{c['head_dim']} {c['ratio']:.2f}" for c in worst
    )
    missed = sum(ratio < least for ratio in ratios)
    verdict = f"{missed} below" if missed else "yes"
    if mean is not None and geometric < mean:
        verdict += ", mean below"
    targets = f"{least:.1f}, {mean}" if mean else f"{least:.1f}"
    return f"| {title} | {geometric:.2f}, {min(ratios):.2f} | {targets} | {verdict} | {shapes} |"


def report(document: Cell) -> Iterator[str]:
    """Markdown tables by threads, dtype and mask, and shares of the peak."""
    measured = document["cells"]
    yield "| threads, dtype, mask | mean, least | targets | reached | least at (heads, S, D) |"
    yield "|---|---|---|---|---|"
    keys = dict.fromkeys((c["threads"], c["dtype"], c["mask"]) for c in measured)
    for key in keys:
        title = "{}, {}, {}".format(*key)
        group = [c for c in measured if (c["threads"], c["dtype"], c["mask"]) == key]
        grid = [c for c in group if c["head_dim"] not in OTHER_DIMS]
        least, mean = TARGETS[key[1:]]
        if grid:
            yield row(title, grid, least, mean)
        if short := [c for c in grid if c["length"] <= SHORT]:
            yield row(f"{title}, S to {SHORT}", short, *SHORT_TARGET)
        if others := [c for c in group if c["head_dim"] in OTHER_DIMS]:
            yield row(
                f"{title}, other D to {LARGEST_OTHER / 1e9:.0f} GFLOP", others, OTHER_LEAST, None
            )
    yield ""
    yield "| threads, dtype | peak GFLOP/s | share at S >= 512, full: median, least | target |"
    yield "|---|---|---|---|"
    for threads, dtype in dict.fromkeys(key[:2] for key in keys):
        peak = document["peaks"][str(threads)][dtype]
        shares = [
            cell["flops"] / peak
            for cell in measured
            if (cell["threads"], cell["dtype"], cell["mask"]) == (threads, dtype, "full")
            and cell["length"] >= LONG
        ]
        if shares and dtype in PEAK_SHARES:
            middle, least = statistics.median(shares), min(shares)
            target = PEAK_SHARES[dtype]
            title = f"{threads}, {dtype} | {peak / 1e9:.0f}"
            yield f"| {title} | {middle:.0%}, {least:.0%} | {target:.0%} |"


def measure_all(arguments: argparse.Namespace) -> Cell:
    """The environment, the peaks in operations per second, and the cells."""
    if arguments.isa:
        _C.select_isa(arguments.isa)
    before = os.getloadavg()[0]
    return {
        **{"machine": cpu_name(), "torch": torch.__version__},
        **{"isa": _C.selected_isa(), "sdpa": torch.backends.cpu.get_cpu_capability()},
        "peaks": {
            str(threads): {name: _C.cpu_peak(CODES[name], threads) for name in arguments.dtypes}
            for threads in arguments.threads
        },
        "cells": [measure(cell, arguments.seconds) for cell in cells(arguments)],
        "load": [before, os.getloadavg()[0]],
    }


def together(files: list[Path]) -> Cell:
    """The cells of all files (one machine, one instruction set); the largest of peaks and loads."""
    documents = [json.loads(file.read_text()) for file in files]
    whole: Cell = {**documents[0], "cells": [], "peaks": {}}
    for one in documents:
        if any(one[name] != whole[name] for name in ("machine", "torch", "isa", "sdpa")):
            sys.exit("these files are of different machines, torches or instruction sets")
        whole["cells"] += one["cells"]
        whole["load"] = [max(both) for both in zip(whole["load"], one["load"], strict=True)]
        for threads, peaks in one["peaks"].items():
            known = whole["peaks"].setdefault(threads, {})
            known.update({name: max(peak, known.get(name, 0)) for name, peak in peaks.items()})
    order = list(DTYPES)
    whole["cells"].sort(key=lambda c: (c["threads"], order.index(c["dtype"]), c["mask"] != "full"))
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    numbers: Cell = {"type": lambda text: [int(part) for part in text.split(",") if part]}
    names: Cell = {"type": lambda text: text.split(",")}
    parser.add_argument("--threads", default=[1], **numbers)
    parser.add_argument("--lengths", default=LENGTHS, **numbers)
    parser.add_argument("--dims", default=[64, 128], **numbers)
    parser.add_argument("--other-dims", default=OTHER_DIMS, **numbers)
    parser.add_argument("--heads", default=[1, 8, 96], **numbers)
    parser.add_argument("--dtypes", default=list(DTYPES), **names)
    parser.add_argument("--masks", default=["full", "causal"], **names)
    parser.add_argument("--isa", help="instruction set of ours")
    parser.add_argument("--seconds", type=float, default=0.25, help="of a cell, at first")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--from", dest="files", nargs="+", type=Path, help="measure nothing")
    arguments = parser.parse_args()
    start = time.perf_counter()
    document = together(arguments.files) if arguments.files else measure_all(arguments)
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(document, separators=(",", ":")) + "\n")
    print(f"{document['machine']}, {document['isa']}, torch {document['torch']}\n")
    print(*report(document), sep="\n")
    print(f"{len(document['cells'])} cells in {time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
