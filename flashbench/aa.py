"""A build against itself: how often this machine raises a false alarm, and what it can see.

Everything here is a function of the log-ratios of the launches of one run file whose pair is twice
the same build. They are cut into comparisons of equal length, in the order they were measured, and
each is judged by the code that `compare` runs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flashbench.case import Case
from flashbench.comparison import Comparison, between_builds, decide_family
from flashbench.launches import LaunchData
from flashbench.stats.family import simultaneous_alpha
from flashbench.stats.proportion import Rate
from flashbench.stats.sequential import anytime_shift
from flashbench.verdict import Outcome, judge

FloatArray = NDArray[np.float64]
MOST_LAUNCHES = 40  # of a comparison that is planned
POWERS = (0.8, 0.95)
_ALARMS = (Outcome.FASTER, Outcome.SLOWER)
_DRAWS = 200  # of the launches of a comparison, for the smallest detectable change


@dataclass(frozen=True, slots=True)
class CaseNoise:
    """What comparing a build with itself showed of one case.

    alarms: comparisons that were called FASTER or SLOWER at any look. deviation: standard deviation
    of one launch's log-ratio; None with fewer than two. detectable: by power, (MOST_LAUNCHES,): the
    smallest change found by that many launches (0.02 is 2 %), infinite where none would be.
    """

    case: Case
    alarms: Rate
    undecided: int
    deviation: float | None
    detectable: dict[float, FloatArray]

    def launches_for(self, change: float, power: float) -> int | None:
        """Fewest launches that find a change of this size; None: more than MOST_LAUNCHES."""
        enough = np.flatnonzero(self.detectable[power] <= change)
        return int(enough[0]) + 1 if len(enough) else None


@dataclass(frozen=True, slots=True)
class SelfComparison:
    """cases: one each. family: comparisons in which any case was called different, at any look.
    fixed: the same without looking before the last launch. launches: of one comparison."""

    data: LaunchData
    cases: list[CaseNoise]
    family: Rate
    fixed: Rate
    launches: int
    tolerance: float
    alpha: float

    @property
    def alarms(self) -> Rate:
        """Over all cases and comparisons."""
        return Rate(
            sum(noise.alarms.count for noise in self.cases),
            sum(noise.alarms.trials for noise in self.cases),
        )


def compare_with_itself(
    data: LaunchData, launches: int, tolerance: float, alpha: float
) -> SelfComparison:
    """Judge the launches of `data`, `launches` to a comparison; what is left over is not used."""
    whole = between_builds(data, alpha, tolerance)
    usable = [c for c in whole if c.problem is None]
    groups = list(_groups(usable, launches, len(data.run.launches)))
    alarmed = [_alarmed_at_any_look(group, tolerance, alpha) for group in groups]
    fixed = [_alarms(group, tolerance, alpha, anytime=False) for group in groups]
    cases = []
    for index, comparison in enumerate(usable):
        ratios = comparison.sides[0]
        present = [a for a, group in zip(alarmed, groups, strict=True) if group[index] is not None]
        cases.append(
            CaseNoise(
                data.run.cases[data.case_index[comparison.case.id]],
                Rate(sum(index in a.alarms for a in present), len(present)),
                sum(index in a.undecided for a in present),
                float(np.std(ratios, ddof=1)) if len(ratios) > 1 else None,
                detectable_changes(ratios, len(usable), tolerance, alpha),
            )
        )
    return SelfComparison(
        data,
        cases,
        Rate(sum(bool(a.alarms) for a in alarmed), len(groups)),
        Rate(sum(bool(a.alarms) for a in fixed), len(groups)),
        launches,
        tolerance,
        alpha,
    )


def detectable_changes(
    ratios: FloatArray, family: int, tolerance: float, alpha: float
) -> dict[float, FloatArray]:
    """By power, (MOST_LAUNCHES,): the smallest change that a comparison would have found by then.

    ratios: (launches,) log-ratios of a build and itself. A change moves every interval by its own
    size, so each draw of launches says from which change on it would have been found. Draws are
    with replacement, of the launches about their median.
    """
    if len(ratios) < 2:
        return {power: np.full(MOST_LAUNCHES, math.inf) for power in POWERS}
    rng = np.random.default_rng(0)  # the same file gives the same table
    draws = rng.choice(ratios - np.median(ratios), (_DRAWS, MOST_LAUNCHES))
    level, limit = simultaneous_alpha(alpha, family), math.log1p(tolerance)
    needed = np.full((_DRAWS, MOST_LAUNCHES), math.inf)
    for row, draw in zip(needed, draws, strict=True):
        for n in range(2, MOST_LAUNCHES + 1):
            shift = anytime_shift(draw[:n], level)
            row[n - 1] = max(-shift.low, limit - shift.value)
    found = np.minimum.accumulate(needed, axis=1)
    return {power: np.expm1(np.quantile(found, power, axis=0, method="higher")) for power in POWERS}


@dataclass(frozen=True, slots=True)
class _Judged:
    alarms: frozenset[int]  # indices of cases
    undecided: frozenset[int]


def _groups(
    usable: Sequence[Comparison], launches: int, total: int
) -> Iterator[list[Comparison | None]]:
    """Every case's launches of one comparison after the other; None where one was not measured."""
    for start in range(0, total - launches + 1, launches):
        group: list[Comparison | None] = []
        for comparison in usable:
            (numbers,), (side,) = comparison.numbers, comparison.sides
            inside = (numbers >= start) & (numbers < start + launches)
            kept = replace(comparison, sides=(side[inside],), numbers=(numbers[inside],))
            group.append(kept if inside.any() else None)
        yield group


def _alarmed_at_any_look(
    group: Sequence[Comparison | None], tolerance: float, alpha: float
) -> _Judged:
    """As `compare` does: looked at after each launch, and a case that is decided is left alone."""
    alarms: set[int] = set()
    decided: set[int] = set()
    most = max((len(c.sides[0]) for c in group if c), default=0)
    for look in range(1, most + 1):
        cut = [
            c and replace(c, sides=(c.sides[0][:look],), numbers=(c.numbers[0][:look],))
            for c in group
        ]
        for index, outcome in _outcomes(cut, tolerance, alpha, anytime=True).items():
            if index in decided or outcome is Outcome.UNDECIDED:
                continue
            decided.add(index)
            if outcome in _ALARMS:
                alarms.add(index)
    everybody = {index for index, c in enumerate(group) if c}
    return _Judged(frozenset(alarms), frozenset(everybody - decided))


def _alarms(
    group: Sequence[Comparison | None], tolerance: float, alpha: float, *, anytime: bool
) -> _Judged:
    outcomes = _outcomes(group, tolerance, alpha, anytime=anytime)
    return _Judged(
        frozenset(i for i, outcome in outcomes.items() if outcome in _ALARMS),
        frozenset(i for i, outcome in outcomes.items() if outcome is Outcome.UNDECIDED),
    )


def _outcomes(
    group: Sequence[Comparison | None], tolerance: float, alpha: float, *, anytime: bool
) -> dict[int, Outcome]:
    """The verdict of each case that has launches, by its index."""
    present = {index: replace(c, anytime=anytime) for index, c in enumerate(group) if c}
    judged = decide_family(list(present.values()), alpha, tolerance, 1, anytime=anytime)
    return {index: judge(c, tolerance).outcome for index, c in zip(present, judged, strict=True)}
