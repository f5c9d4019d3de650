"""The tables of docs/lab/statistics.md about real machines, from the run files in results/machines.

    python experiments/real_machines.py

Measured by `flashbench aa` (NAME-aa.json) and by planted_slowdowns.py (NAME-planted-PERCENT.json).
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from flashbench import runfile
from flashbench.aa import compare_with_itself
from flashbench.launches import launch_data
from flashbench.outcome import Outcome
from flashbench.pairing import of_builds
from flashbench.report import report_one
from flashbench.stats.order import launch_correlation
from flashbench.stats.proportion import Rate

DIRECTORY = Path(__file__).parents[1] / "results" / "machines"
LAUNCHES = 7  # of a comparison of a build with itself
VERDICTS = (
    Outcome.SLOWER,
    Outcome.PERHAPS_SLOWER,
    Outcome.SAME,
    Outcome.UNDECIDED,
    Outcome.PERHAPS_FASTER,
    Outcome.FASTER,
)


def main() -> None:
    head = ["machine", "cases", "launches", "comparisons", "false alarms a case", "families"]
    head += ["undecided", "rho", "sees 2 % with"]
    print(row(head), row(["---"] * len(head)), sep="\n")
    for file in sorted(DIRECTORY.glob("*-aa.json")):
        print(row(self_comparison(file)))
    head = ["machine", "slower by %", *VERDICTS, "launches a case", "device s"]
    print("", row(head), row(["---"] * len(head)), sep="\n")
    for file in sorted(DIRECTORY.glob("*-planted-*.json"), key=planted):
        print(row(slowdown(file)))


def self_comparison(file: Path) -> list[object]:
    run = runfile.read(file)
    run.launches = [launch for launch in run.launches if launch.complete]
    found = compare_with_itself(launch_data(run), LAUNCHES, 0.01, 0.05)
    plans = [noise.launches_for(0.02, 0.8) for noise in found.cases]
    half = sorted(plan or 10**9 for plan in plans)[len(plans) // 2]
    return [
        device(run),
        len(found.cases),
        len(run.launches),
        found.alarms.trials,
        shown(found.alarms),
        shown(found.family),
        f"{sum(noise.undecided for noise in found.cases) / found.alarms.trials:.0%}",
        f"{correlation(run):.2f}",
        f"{half} launches in half of the cases" if half < 10**9 else "more than 40 launches",
    ]


def correlation(run: runfile.RunFile) -> float:
    """Correlation of neighbouring launches over all cases, significant or not."""
    sides = [pairing.sides[0] for pairing in of_builds(launch_data(run), 0.01) if pairing.sides]
    return launch_correlation(np.stack([side[: min(map(len, sides))] for side in sides]), 1.0)


def slowdown(file: Path) -> list[object]:
    run = runfile.read(file)
    report = report_one(run)
    counts = Counter(verdict.outcome for verdict in report.verdicts)
    launches = sum(min(c.pairing.launches, default=0) for c in report.comparisons)
    return [
        device(run),
        planted(file)[1],
        *(counts[outcome] for outcome in VERDICTS),
        f"{launches / len(report.comparisons):.1f}",
        f"{run.device_seconds:.0f}",
    ]


def planted(file: Path) -> tuple[str, int]:
    machine, _, percent = file.stem.rpartition("-")
    return machine, int(percent)


def device(run: runfile.RunFile) -> str:
    environment = run.environment
    return environment.gpu or f"{environment.cpu}, {environment.threads} threads"


def shown(rate: Rate) -> str:
    low, high = rate.interval()
    return f"{rate.count} of {rate.trials} [{low:.3f}, {high:.3f}]"


def row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
