"""Paired processes (`compare --processes paired`): false alarms and power if each revision has its
own process, so that process effects do not cancel.

    python experiments/paired_processes.py [families] [seed]
    python experiments/paired_processes.py --file compare.json ...

A process shifts the log times of all its cases equally, and those of its SDPA by a share of that;
the machine's drift affects both processes. Two estimators get a look after every launch: `direct`,
log(A / B) over blocks of the same number, and `tied`, log(A / its SDPA) - log(B / its SDPA). With
--file: the spread of both in measured run files.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from anytime_false_alarms import LOOKS, ever_alarmed
from families import outcomes, rate
from simulated_noise import drift

from flashbench import runfile
from flashbench.arrays import FloatArray
from flashbench.launches import baseline_index, launch_data
from flashbench.outcome import Outcome

WITHIN = 0.005  # of a case in a launch, sd of the median's log
CASES = (1, 16)
SLOWER = (0.02, 0.05)
Effect = Callable[[np.random.Generator, int], FloatArray]  # of one process, for each launch

EFFECTS: dict[str, Effect] = {
    "none": lambda rng, n: np.zeros(n),
    "normal, 1 %": lambda rng, n: 0.01 * rng.standard_normal(n),
    "normal, 5 %": lambda rng, n: 0.05 * rng.standard_normal(n),
    "Student's t, 3 degrees, 1 %": lambda rng, n: 0.01 * rng.standard_t(3, n) / math.sqrt(3),
    "modes at 0 and 5 %": lambda rng, n: 0.05 * rng.integers(0, 2, n),
}
# How the process that starts second differs; the order alternates within random pairs of launches.
LATER = {"none": 0.0, "second process 2 % slower": 0.02}


def launches(
    rng: np.random.Generator, effect: Effect, later: float, share: float, cases: int, slower: float
) -> dict[str, FloatArray]:
    """(cases, launches) log(A / B) by both estimators. share: of a process's effect in its SDPA."""
    count = LOOKS[-1]
    first = np.repeat(rng.integers(0, 2, count // 2), 2) ^ np.tile([0, 1], count // 2)
    machine = 0.05 * drift(rng, (cases, count))
    kernels, controls = [], []
    for side in (0, 1):
        process = effect(rng, count) + later * (first == side)
        noise = WITHIN * rng.standard_normal((2, cases, count))
        kernels.append(machine + process + noise[0] + slower * side)
        controls.append(machine + share * process + noise[1])
    direct = kernels[0] - kernels[1]
    return {"direct": direct, "tied": direct - (controls[0] - controls[1])}


def false_alarms(families: int, seed: int) -> None:
    print(f"| cases | a process's own | the order of starting | direct | tied |\n{'|---' * 5}|")
    for cases in CASES:
        for name, effect in EFFECTS.items():
            for order, later in LATER.items():
                rng = np.random.default_rng(seed)
                drawn = [launches(rng, effect, later, 0.5, cases, 0) for _ in range(families)]
                found = [
                    int(ever_alarmed(np.stack([ratios[way] for ratios in drawn])).sum())
                    for way in ("direct", "tied")
                ]
                cells = [rate(count, families) for count in found]
                print(f"| {cases} | {name} | {order} | {' | '.join(cells)} |", flush=True)


def power(families: int, seed: int) -> None:
    head = "| a process's own | in its SDPA | slower by | direct | launches | tied | launches |"
    print(f"\n{head}\n{'|---' * 7}|")
    for name, effect in EFFECTS.items():
        for share in (0.0, 0.5, 1.0):
            for slower in SLOWER:
                rng = np.random.default_rng(seed)
                stops: dict[str, list[int]] = {"direct": [], "tied": []}
                for _ in range(families):
                    found = launches(rng, effect, 0.0, share, 1, slower)
                    for way, ratios in found.items():
                        stops[way] += stop(ratios)
                cells = []
                for stopped in stops.values():
                    cells.append(rate(len(stopped), families))
                    cells.append(f"{np.median(stopped):.0f}" if stopped else "-")
                print(f"| {name} | {share:g} | {slower:.0%} | {' | '.join(cells)} |", flush=True)


def stop(ratios: FloatArray) -> list[int]:
    """The first look at which the case is SLOWER; None if never."""
    for count in LOOKS:
        if next(outcomes([ratios[:, :count]], anytime=True)) is Outcome.SLOWER:
            return [count]
    return []


def spread(files: Sequence[Path]) -> None:
    print(f"| file | case | launches | direct, sd % | tied, sd % | both, % |\n{'|---' * 6}|")
    for file in files:
        data = launch_data(runfile.read(file))
        assert data.run.pair is not None
        sides = [data.candidate_index[name] for name in (data.run.pair.old, data.run.pair.new)]
        names = [data.run.candidates[side].name for side in sides]
        controls = [baseline_index(data.run, name) for name in names]
        direct = data.speedups(sides[1], sides[0])
        old, new = (
            data.speedups(side, control)
            for side, control in zip(sides, controls, strict=True)
            if control is not None
        )
        for place, case in enumerate(data.run.cases):
            both = np.stack([direct[place], (new - old)[place]])
            both = both[:, ~np.isnan(both).any(axis=0)]
            sds = [f"{100 * value:.2f}" for value in both.std(axis=1, ddof=1)]
            middle = ", ".join(f"{100 * math.expm1(m):+.2f}" for m in np.median(both, axis=1))
            print(f"| {file.stem} | {case.id} | {both.shape[1]} | {' | '.join(sds)} | {middle} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("families", type=int, nargs="?", default=400)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--file", type=Path, nargs="+")
    asked = parser.parse_args()
    if asked.file:
        spread(asked.file)
        return
    print(f"{asked.families} families, seed {asked.seed}, any of {len(LOOKS)} looks")
    false_alarms(asked.families, asked.seed)
    power(asked.families, asked.seed)


if __name__ == "__main__":
    main()
