"""How often bisection is right, and what it costs, on generated histories with simulated launches.

    python experiments/bisect_commits.py [TRIALS] [SEED]

128 commits, linear or with merges; 30 % of them cannot be built; one makes itself and all
descendants 3 % slower. A launch yields the log-ratio of two builds, each with its own 1 % noise
(1.41 % in the ratio). The comparison of the ends and the bisection run the code of `flashbench
bisect --for speed`. A measurement is one launch, including those of the ends.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from flashbench.bisect.culprit import Search
from flashbench.bisect.faults import FaultSearch
from flashbench.bisect.graph import CommitGraph, graph_of
from flashbench.bisect.launches_on_demand import ENOUGH, SLOWER
from flashbench.comparison import decide_family
from flashbench.outcome import Outcome
from flashbench.pairing import Pairing
from flashbench.verdict import judge

COMMITS, UNBUILDABLE, SLOWDOWN, NOISE = 128, 0.3, 0.03, 0.01
TOLERANCE, CONFIDENCE, MOST_LAUNCHES = 0.02, 0.98, 40


@dataclass(frozen=True)
class Made:
    """A commit of a generated history."""

    id: str
    parents: tuple[str, ...]


def history(rng: np.random.Generator, merges: bool, size: int = COMMITS) -> CommitGraph:
    """Parents first; with merges, side branches of 1 to 6 commits that come back to main."""
    made: list[Made] = []
    tip, side = "good", ""
    left = 0
    while len(made) < size - 1:
        name = f"c{len(made)}"
        if side and left == 0:
            made.append(Made(name, (tip, side)))
            tip, side = name, ""
        elif side and rng.random() < 0.5:
            made.append(Made(name, (side,)))
            side, left = name, left - 1
        elif merges and not side and rng.random() < 0.25:
            made.append(Made(name, (tip,)))
            side, left = name, int(rng.integers(0, 6))
        else:
            made.append(Made(name, (tip,)))
            tip = name
    made.append(Made("bad", (tip, side) if side else (tip,)))
    return graph_of(made)


Noise = Callable[[np.random.Generator], float]


def normal(rng: np.random.Generator) -> float:
    return float(NOISE * math.sqrt(2) * rng.standard_normal())


def heavy(rng: np.random.Generator) -> float:
    """Student's t with 3 degrees of freedom, of the same standard deviation."""
    return float(NOISE * math.sqrt(2) * rng.standard_t(3) / math.sqrt(3))


def ends_differ(tell: Callable[[], float]) -> tuple[Outcome, list[float]]:
    """Compare good and bad until decided; returns the verdict and the launches."""
    launches: list[float] = []
    outcome = Outcome.UNDECIDED
    while outcome not in ENOUGH and len(launches) < MOST_LAUNCHES:
        launches.append(tell())
        speedups = -np.array(launches)
        blank = Pairing(
            Made("case", ()),
            "B",
            "A",
            "wall",
            (speedups,),
            (np.arange(len(launches)),),
        )
        (found,) = decide_family([blank], 1 - CONFIDENCE, TOLERANCE, 1, anytime=True)
        outcome = judge(found, TOLERANCE).outcome
    return outcome, launches


@dataclass
class Trial:
    """The result of one bisection. right: it names the culprit, alone or among commits hidden by
    failed builds."""

    right: bool
    launches: int
    built: int
    alone: bool


def speed_trial(rng: np.random.Generator, merges: bool, noise: Noise = normal) -> Trial:
    graph = history(rng, merges)
    broken = rng.random(graph.size) < UNBUILDABLE
    broken[-1] = False
    culprit = int(rng.integers(graph.size))
    has = graph.descendants(culprit)
    outcome, launches = ends_differ(lambda: math.log1p(SLOWDOWN) + noise(rng))
    if outcome not in SLOWER:
        return Trial(False, len(launches), 1, False)
    search = Search(graph, np.ones(graph.size), float(np.mean(launches)))
    for value in launches:
        search.record(graph.size - 1, value)
    tried = {graph.size - 1}
    while (commit := search.next(CONFIDENCE)) is not None:
        tried.add(commit)
        if broken[commit]:
            search.skip(commit)
            continue
        search.record(commit, math.log1p(SLOWDOWN) * has[commit] + noise(rng))
    found, _ = search.answer()
    count = sum(len(values) for values in search.launches.values())
    return Trial(culprit in found, count, len(tried), len(found) == 1)


@dataclass
class FaultTrial:
    """right: the last commit that works is the true one, and nothing works that
    descends from the first that does not."""

    right: bool
    tried: int


def fault_trial(rng: np.random.Generator, merges: bool, jobs: int = 1) -> FaultTrial:
    """One commit breaks all its descendants for good; 30 % of the others are broken too and
    repaired by the next."""
    graph = history(rng, merges)
    culprit = int(rng.integers(graph.size))
    broken = rng.random(graph.size) < UNBUILDABLE
    broken[graph.descendants(culprit)] = True
    tried: set[int] = set()

    def attempt(commits: Sequence[int]) -> dict[int, bool | None]:
        tried.update(commits)
        return {commit: not broken[commit] for commit in commits}

    search = FaultSearch(graph, attempt, jobs)
    search.halve()
    search.prove()
    found = search.answer()
    last = None if broken.all() else int(np.flatnonzero(~broken)[-1])
    for_good = bool(broken[graph.descendants(found.first)].all())
    return FaultTrial(found.last == last and for_good, len(tried))


def main(trials: int, seed: int) -> None:
    for merges in (False, True):
        rng = np.random.default_rng([seed, merges])
        found = [fault_trial(rng, merges) for _ in range(trials)]
        print(
            f"{'merges' if merges else 'linear'}, last that builds: right "
            f"{sum(trial.right for trial in found)} of {trials}, commits tried median "
            f"{sorted(trial.tried for trial in found)[trials // 2]}"
        )
    for merges in (False, True):
        for noise in (normal, heavy):
            rng = np.random.default_rng([seed, merges])
            done = [speed_trial(rng, merges, noise) for _ in range(trials)]
            right = sum(trial.right for trial in done)
            launches = sorted(trial.launches for trial in done)
            built = sorted(trial.built for trial in done)
            print(
                f"{'merges' if merges else 'linear'}, {noise.__name__} noise: right {right} of "
                f"{trials}, launches median {launches[trials // 2]}, 90 % "
                f"{launches[trials * 9 // 10]}, most {launches[-1]}; commits tried median "
                f"{built[trials // 2]}; named alone {sum(trial.alone for trial in done)}"
            )


if __name__ == "__main__":
    main(*(int(text) for text in (*sys.argv[1:], *("100", "1")[len(sys.argv) - 1 :])))
