"""Forecast the launches of a search for a slowdown by simulating searches."""

import math
from dataclasses import dataclass

import numpy as np

from flashbench.bisect.culprit import Search
from flashbench.bisect.graph import CommitGraph
from flashbench.cost.decision import WORSE, sought_change
from flashbench.cost.estimate import Seconds, Work, case_seconds, first_seconds
from flashbench.cost.forecast import Part, parts_until_decided
from flashbench.cost.known import Experience

_SPREAD = 0.02  # of two builds between launches, if none is known
_SEARCHES = 9
_MOST_COMMITS = 64  # simulated: with more of them, launches grow like the logarithm
_MOST_LAUNCHES = 100


@dataclass(frozen=True)
class SearchLaunches:
    """The parts of a plan, where their numbers come from, and the commits between the ends that are
    built for them."""

    parts: list[Part]
    sources: list[tuple[str, str]]
    commits: Seconds


def launches_of_search(
    suspects: int, ends: Work, known: Experience, tolerance: float, confidence: float
) -> SearchLaunches:
    """Launches of the two ends until they differ, then of commits between them, for a slowdown of
    `sought_change`. suspects: commits that may have caused it; ends: launches of both ends, at
    most."""
    parts, why = parts_until_decided(ends, known, tolerance, confidence, sought=True)
    case = ends.cases[0]
    known_spread = known.spread_between(case, ends.processes)
    spread, before = known_spread or _SPREAD, round(parts[0].count / ends.processes)
    slowdown = sought_change(spread, tolerance)
    usual, worse = (
        simulated(suspects, slowdown, factor * spread, confidence, before)
        for factor in (1.0, WORSE)
    )
    launches, commits = (
        Seconds(few[0], few[len(few) // 2], many[-1])
        for few, many in zip(usual, worse, strict=True)
    )
    # Each launch is a run of its own, and a commit's first checks more.
    each = known.start(ends.processes, ends.candidates).first + case_seconds(ends, case, known)
    more = first_seconds(ends, case, known)
    seconds = launches * each + commits * more
    seconds = seconds.spread(*known.spread(known.level_of(ends)))
    basis = "by the spread of earlier launches here" if known_spread else "a guess"
    words = f"{launches.likely:.0f} ({launches.low:.0f} to {launches.high:.0f})"
    then = f"then about {words} launches of commits between the ends: {basis}"
    return SearchLaunches(
        [*parts, Part("launches of commits between", launches.likely, seconds)],
        [why, ("launches" if known_spread else "guess", then)],
        commits,
    )


def simulated(
    suspects: int, slowdown: float, spread: float, confidence: float, ends: int
) -> tuple[list[float], list[float]]:
    """Simulate searches whose culprits are spread over the range. Returns the launches of commits
    between the ends, and how many commits these were, each in ascending order.

    suspects: commits in a line, at least one; slowdown: log(time of bad / time of good), above 0;
    spread: the standard deviation of such a ratio between launches; ends: launches of the ends.
    """
    size = min(suspects, _MOST_COMMITS)
    parents = ((), *((place,) for place in range(size - 1)))
    graph = CommitGraph(np.triu(np.ones((size, size), dtype=bool)), parents)
    factor = math.log2(suspects + 1) / math.log2(size + 1)
    rng, launches, commits = np.random.default_rng(1), [], []
    for culprit in np.linspace(0, size - 1, _SEARCHES).round():
        search = Search(graph, np.ones(size), slowdown)
        search.launches[size - 1] = list(slowdown + spread * rng.normal(size=ends))
        count = 0
        while count < _MOST_LAUNCHES and (commit := search.next(confidence)) is not None:
            search.record(commit, slowdown * (commit >= culprit) + spread * rng.normal())
            count += 1
        launches.append(factor * count)
        commits.append(factor * (len(search.launches) - 1))
    return sorted(launches), sorted(commits)
