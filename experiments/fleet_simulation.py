"""A grid on many GPUs: wall time and GPU time by the real planner, with and without lost GPUs.

    python experiments/fleet_simulation.py [--cases 1000] [--launches 12] [--gpus 1 10 100 200]

Shards are those of `run --shard`. A lost GPU's shard goes where `run --gpus` sends it: once, to a
GPU that has finished, which measures the missing launches. The cost of a launch, a start and
seconds per case, is fitted to the run files of one H200 in results/. Single cases deviate by a
log-normal factor, which the planner knows only where it measured the case before ("by time").
Builds, queues and starting machines are left out.
"""

import argparse
from pathlib import Path

import numpy as np

from flashbench.case import Case
from flashbench.cost.estimate import Work
from flashbench.cost.known import Experience
from flashbench.cost.shares import shards
from flashbench.cost.store import CandidateCost, CaseCost, MachineCosts
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import Shape
from flashbench.run_reader import read_for_analysis
from flashbench.shard import Shard, cases_of_shard, deal, equal_shards

ROOT = Path(__file__).resolve().parent.parent
FILES = ("h200", "h200-head-dims", "h200-decode")
SPREAD = 0.5  # of the log of a case's seconds


def fitted() -> tuple[float, float, float]:
    """Seconds of a launch's start, of a case in it, and of a case's first checks."""
    runs = [read_for_analysis(ROOT / "results" / f"{name}.json") for name in FILES]
    counts = [len(run.cases) for run in runs]
    later = [np.median([launch.device_seconds for launch in run.launches[1:]]) for run in runs]
    case, start = np.polyfit(counts, later, 1)
    first = [run.launches[0].device_seconds - one for run, one in zip(runs, later, strict=True)]
    return float(start), float(case), float(np.mean(np.array(first) / counts))


def grid(count: int) -> list[Case]:
    """Cases whose operations span three orders of magnitude."""
    lengths = [64 * (1 + place % 64) for place in range(count)]
    return [
        attention_case(Shape(1 + place // 64, 8, 8, length, length, 64), "bf16", False, "cuda")
        for place, length in enumerate(lengths)
    ]


def dealt(seconds: dict[Case, float], gpus: int) -> list[Shard]:
    """By the planner, on a machine that knows what each case takes."""
    nothing = CandidateCost(call=1e-9, fixed=0.0, turn=0.0, stretch=1e-9)
    costs = {
        case.id: CaseCost(every=one, first=0.0, candidates={"sdpa": nothing})
        for case, one in seconds.items()
    }
    known = Experience("cuda", MachineCosts(device="cuda", name="", threads=0, cases=costs))
    return shards(Work(list(seconds), ["sdpa"], launches=1, samples=2), known, gpus)


def simulate(
    cases: list[Case],
    gpus: int,
    launches: int,
    lost: int,
    rng: np.random.Generator,
    *,
    by_time: bool = False,
) -> tuple[float, float]:
    """Wall seconds until everything is measured, and the sum of GPU seconds. by_time: the planner
    knows what each case takes."""
    start, mean, check = fitted()
    factor = np.exp(rng.normal(-(SPREAD**2) / 2, SPREAD, len(cases)))
    seconds = dict(zip(cases, mean * factor, strict=True))
    launch, extra = [], []  # of each shard
    for shard in dealt(seconds, gpus) if by_time else equal_shards(gpus):
        mine = cases_of_shard(cases, str(shard))
        launch.append(start + sum(seconds[case] for case in mine))
        extra.append(check * len(mine))
    ends = launches * np.array(launch) + extra
    dead = rng.choice(gpus, lost, replace=False)
    total = float(ends.sum())
    done = rng.uniform(0, 1, lost)  # of its work, when a GPU is lost
    left = {}
    for gpu, share in zip(dead, done, strict=True):
        whole = int(share * launches)
        left[gpu] = (launches - whole) * launch[gpu] + (0 if whole else extra[gpu])
        total += left[gpu] - (1 - share) * ends[gpu]
    alive = sorted(set(range(gpus)) - set(dead))
    wall = float(max(ends[alive]))
    for batch in deal(sorted(left), alive):  # after all others have ended
        wall += max(left[gpu] for _, gpu in batch)
    return wall, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--launches", type=int, default=12)
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 10, 50, 100, 200])
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    start, case, check = fitted()
    print(f"a launch: {start:.1f} s, and {case:.2f} s a case; first checks: {check:.2f} s a case")
    print(f"{options.cases} cases, {options.launches} launches, {options.repeats} simulations")
    print("GPUs  lost  wall min (largest)  by time      GPU hours  of the wall of one GPU")
    cases = grid(options.cases)
    one = None
    for gpus in options.gpus:
        for lost in sorted({0, gpus // 20}):
            runs, timed = (
                [
                    simulate(cases, gpus, options.launches, lost, rng, by_time=by_time)
                    for rng in map(np.random.default_rng, range(options.repeats))
                ]
                for by_time in (False, True)
            )
            walls, totals = np.array(runs).T
            planned = np.array(timed)[:, 0]
            one = one or walls.mean()
            speedup = one / walls.mean()
            print(
                f"{gpus:4d}  {lost:4d}  {walls.mean() / 60:8.1f} ({walls.max() / 60:5.1f})  "
                f"{planned.mean() / 60:5.1f} ({planned.max() / 60:4.1f})"
                f"{totals.mean() / 3600:9.2f}  1/{speedup:.0f}"
            )


if __name__ == "__main__":
    main()
