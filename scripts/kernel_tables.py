"""Print the tables of docs/lab/cuda-kernels.md from run files, in Markdown.

python scripts/kernel_tables.py floors results/h200.json
python scripts/kernel_tables.py others results/h200-others.json
python scripts/kernel_tables.py control results/h200.json results/h200-others.json
python scripts/kernel_tables.py divisions results/tuning/h200-decode-divisions.json
python scripts/kernel_tables.py choices results/tuning/h200-families.json
"""

import json
import statistics
import sys
from pathlib import Path

from flashbench.case import Case
from flashbench.launches import LaunchData, launch_data
from flashbench.operations.attention.operation import mask_of, shape_of
from flashbench.run_reader import read_for_analysis

# What torch's matrix product and a copy reach on the H200 (docs/lab/cuda-kernels.md).
PEAK_FLOPS = 790e12
PEAK_BYTES = 4.3e12
METRICS = ("graph", "gpu_warm", "gpu_cold", "wall")


def name(case: Case) -> str:
    s, mask = shape_of(case), mask_of(case).replace("_", " ")
    heads = f"{s.heads}" if s.kv_heads == s.heads else f"{s.heads} ({s.kv_heads} kv)"
    length = f"{s.q_len}" if s.k_len == s.q_len else f"{s.q_len} x {s.k_len}"
    return f"{s.batch},{heads},{length},{s.head_dim} | {mask}"


def speedup(data: LaunchData, candidate: str, baseline: str, case: Case) -> float:
    places = data.candidate_index[candidate], data.candidate_index[baseline]
    found: float = data.median_speedups(*places)[data.case_index[case.id]]
    return found


def median_us(data: LaunchData, candidate: str, case: Case) -> float:
    found = data.median_us(data.candidate_index[candidate], data.case_index[case.id])
    return float("nan") if found is None else found


def floors(path: Path) -> None:
    """Our kernel beside SDPA's default by every metric, and beside both floors; bf16."""
    run = read_for_analysis(path)
    by_metric = {metric: launch_data(run, metric) for metric in METRICS}
    print("| B,H,S,D | | ours us | TFLOP/s | SDPA us |", " | ".join(METRICS), end=" |")
    print(" arithmetic us | bytes us | floor / ours |")
    print("|---|---" + "|---:" * (3 + len(METRICS) + 3) + "|")
    for case in (case for case in run.cases if case.dtype == "bf16"):
        ours = median_us(by_metric["graph"], "flashbench", case)
        ratios = [speedup(data, "flashbench", "sdpa", case) for data in by_metric.values()]
        arithmetic, moved = case.flops / PEAK_FLOPS * 1e6, case.bytes / PEAK_BYTES * 1e6
        cells = [f"{ours:.4g}", f"{case.flops / ours / 1e6:.0f}"]
        cells += [f"{median_us(by_metric['graph'], 'sdpa', case):.4g}"]
        cells += [f"{ratio:.2f}" for ratio in ratios]
        cells += [f"{arithmetic:.3g}", f"{moved:.3g}", f"{max(arithmetic, moved) / ours:.2f}"]
        print(f"| {name(case)} | {' | '.join(cells)} |")


def others(path: Path) -> None:
    """Our graph-replay time, and our speed-up over each other candidate."""
    run = read_for_analysis(path)
    data = launch_data(run, "graph")
    rivals = [candidate.name for candidate in run.candidates if candidate.name != "flashbench"]
    print("| B,H,S,D | | ours us |", " | ".join(rivals), "|")
    print("|---|---" + "|---:" * (1 + len(rivals)) + "|")
    for case in run.cases:
        ours = median_us(data, "flashbench", case)
        ratios = [f"{speedup(data, 'flashbench', rival, case):.2f}" for rival in rivals]
        print(f"| {name(case)} | {ours:.4g} | {' | '.join(ratios)} |")


def control(ours: Path, theirs: Path) -> None:
    """Our speed-up over SDPA in one run beside FlashAttention-4's in another, by graph replays: an
    estimate without an interval."""
    runs = read_for_analysis(ours), read_for_analysis(theirs)
    mine, other = (launch_data(run, "graph") for run in runs)
    both = [case for case in runs[1].cases if case.id in mine.case_index]
    ratios = [
        speedup(mine, "flashbench", "sdpa", case) / speedup(other, "fa4", "sdpa", case)
        for case in both
    ]
    for ratio, case in sorted(zip(ratios, both, strict=True), key=lambda one: one[0]):
        print(f"{ratio:.3f} {case.id}")
    print(f"{statistics.geometric_mean(ratios):.3f} in the geometric mean of {len(both)}")


def divisions(path: Path) -> None:
    """The fastest divisions of the keys of few queries, as splits of a tile in clusters of so
    many, by graph replays."""
    _fastest(path, "splits, cluster", most=4)


def choices(path: Path) -> None:
    """What was timed of each cell (kernels, tensor maps), fastest first, by graph replays."""
    _fastest(path, "choice")


def _fastest(path: Path, named: str, most: int | None = None) -> None:
    print(f"| B, heads, key heads, queries, keys, D | SDPA us | us by {named} |")
    print("|---|---:|---|")
    for cell in json.loads(path.read_text())["cells"]:
        sizes = ("batch", "heads", "kv_heads", "q_len", "k_len", "head_dim")
        shape = ",".join(str(cell[size]) for size in sizes)
        mask = f" {cell['mask'].replace('_', ' ')}" if "mask" in cell else ""
        best = sorted(cell["us"].items(), key=lambda one: one[1])[:most]
        cells = "; ".join(f"{name}: {us:.2f}" for name, us in best)
        sdpa = f"{cell['sdpa_us']:.2f}" if "sdpa_us" in cell else ""
        print(f"| {shape}{mask} | {sdpa} | {cells} |")


if __name__ == "__main__":
    commands = {
        "floors": floors,
        "others": others,
        "control": control,
        "divisions": divisions,
        "choices": choices,
    }
    commands[sys.argv[1]](*map(Path, sys.argv[2:]))
