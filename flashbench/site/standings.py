"""Standings: each candidate's cases on each device, as a geometric mean over time."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.history.changes import find
from flashbench.history.model import History, Points, Series, together
from flashbench.metric import DEFAULT_METRIC
from flashbench.site.content import CONFIDENCE, Graph, speedup
from flashbench.site.jumps import jumps
from flashbench.stats.quantile import interval_ranks

_MOSTLY = 3 / 4  # of the commits; cases measured at fewer are left out of the mean
_State = Literal["faster", "slower", "as fast"]


@dataclass(frozen=True, slots=True)
class Standing:
    """One candidate's cases on a machine and device, by the device's default metric.

    graphs: of the cases; mean: the graph of their geometric mean, or None; cases: how many it
    includes.
    """

    machine: str
    device: str
    metric: str
    candidate: str
    graphs: tuple[Graph, ...]
    mean: Graph | None
    cases: int

    @property
    def points(self) -> Points | None:
        """The mean as a speed-up, above 1 is faster."""
        ratio = self.mean.series.ratio if self.mean else None
        return speedup(ratio) if ratio is not None and len(ratio) else None

    @property
    def newest(self) -> int:
        """The newest commit with a number, as an index."""
        return max(int(graph.series.judged.commit[-1]) for graph in self.graphs)


def standings(graphs: Sequence[Graph]) -> tuple[Standing, ...]:
    """One standing per machine, device and candidate measured beside SDPA, those with the newest
    numbers first."""
    groups: dict[tuple[str, str, str, str, str], list[Graph]] = defaultdict(list)
    for graph in graphs:
        one, device = graph.series, graph.traits[2]
        is_judged = one.case and one.ratio is not None and len(one.ratio) and not one.baseline
        if is_judged and one.metric == DEFAULT_METRIC.get(device):
            groups[one.machine, one.environment, device, one.metric, one.candidate].append(graph)
    found = []
    for (machine, environment, device, metric, candidate), members in groups.items():
        ratios = [one.series.ratio for one in members]
        mean, cases = geometric_mean([ratio for ratio in ratios if ratio is not None])
        together: Graph | None = None
        if mean is not None:
            named = f"geometric mean of {cases} case{'s' * (cases != 1)}"
            place = " ".join((environment, device, metric, candidate))
            series = Series(machine, place, named, (), "", mean, metric, ratio=mean)
            together = Graph(series)
        found.append(Standing(machine, device, metric, candidate, tuple(members), together, cases))
    return tuple(sorted(found, key=lambda one: (-one.newest, one.machine, one.candidate)))


def with_changes(
    found: Sequence[Standing], history: History, factors: Mapping[str, float]
) -> tuple[Standing, ...]:
    """The standings with the changes and jumps of their means, which are searched by themselves.
    factors: on the penalty, that the noise of the machines' cases requires."""
    means = [one.mean.series for one in found if one.mean is not None]
    changes = iter(find(history, means, known=factors).changes)
    made = []
    for one in found:
        if one.mean is not None:
            steps = next(changes) or ()
            mean = replace(one.mean, changes=steps, jumps=jumps(one.mean.series.judged, steps))
            one = replace(one, mean=mean)
        made.append(one)
    return tuple(made)


def geometric_mean(series: Sequence[Points]) -> tuple[Points | None, int]:
    """The geometric mean of series along the commits, and their number; None without any.

    A commit counts if it measured half of the cases; a case that it did not measure keeps its
    previous samples. The mean is taken launch by launch: value, interval and quartiles are those
    of its launches. Without samples it is the mean of the values, without an interval.
    """
    commits = together([one.commit for one in series])
    members = [one for one in series if len(one) >= _MOSTLY * len(commits)]
    if not members:
        return None, 0
    # For each case and commit, the place of its newest point there or before.
    newest = np.array([np.searchsorted(one.commit, commits, "right") - 1 for one in members])
    every = np.concatenate([one.commit for one in members])
    measured = np.bincount(every, minlength=1 + commits.max(initial=-1))[commits]
    counted = (newest >= 0).all(axis=0) & (measured >= 0.5 * len(members))
    taken = [*zip(members, newest[:, counted], strict=True)]
    means = np.mean([np.log(one.value[at]) for one, at in taken], axis=0)
    width = min(one.samples.shape[1] for one in members)
    by_launch = np.zeros((len(means), width))
    for one, at in taken if width else []:
        by_launch += np.log(one.samples[at, :width], dtype=np.float64) / len(members)
    found = [_of_launches(*one) for one in zip(means, by_launch, strict=True)]
    if not found:
        return None, 0
    value, low, high, q25, q75 = np.exp(np.array(found)).T
    launches = np.isfinite(by_launch).sum(axis=1)
    unknown = np.full(len(found), np.nan)
    points = Points(
        commits[counted], value, low, high, q25, q75, launches, p90=unknown, p99=unknown
    )
    return points, len(members)


def _of_launches(mean: float, launches: FloatArray) -> tuple[float, ...]:
    """Median, ends of its interval, and quartiles of these launches, which may have NaN; without
    launches the mean alone."""
    ordered = np.sort(launches[np.isfinite(launches)])
    if not len(ordered):
        return mean, *[math.nan] * 4
    ranks = interval_ranks(len(ordered), 0.5, CONFIDENCE)
    ends = [float(ordered[rank - 1]) for rank in ranks] if ranks else [math.nan, math.nan]
    lower, middle, upper = np.quantile(ordered, (0.25, 0.5, 0.75)).tolist()
    return middle, *ends, lower, upper


def state_of(low: float, high: float) -> _State:
    """The state that an interval of a speed-up shows; an unbounded one shows none."""
    if low > 1:
        return "faster"
    return "slower" if high < 1 else "as fast"


def since(points: Points, state: _State | None = None) -> int | None:
    """The first commit from which on the mean is on its side of 1, or as fast; None if it always
    was. state: the newest one, by default that of its band."""
    states = [state_of(low, high) for low, high in zip(points.low, points.high, strict=True)]
    state = state or states[-1]
    same = [one == state for one in states]
    if state != "as fast":
        same = ((points.value > 1) if state == "faster" else (points.value < 1)).tolist()
    others = [place for place, one in enumerate(same) if not one]
    return int(points.commit[min(others[-1] + 1, len(points) - 1)]) if others else None
