"""Comparison: the evidence of the launches on the speed-up of one candidate on one case.

A pairing of launches goes in (pairing.py), an estimate comes out. Its interval has the level
required by the family, all cases together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.family_noise import by_launch, noise_of_all, noise_until
from flashbench.launches import Failure, LaunchData
from flashbench.pairing import Identified, Pairing, of_builds, of_runs, with_baseline
from flashbench.stats.family import look_price, simultaneous_alpha
from flashbench.stats.modes import Modes, two_modes
from flashbench.stats.order import stretch, widened
from flashbench.stats.sequential import IntervalTerms, anytime_shift, anytime_shifts
from flashbench.stats.shift import Shift, paired_shift, smallest_p
from flashbench.stats.unlike import unlike_shift


@dataclass(frozen=True, slots=True)
class Estimate:
    """The speed-up and its uncertainty."""

    shift: Shift  # of confidence 1 - terms.alpha
    terms: IntervalTerms  # of this interval
    p_family: float  # times the number of comparisons: at most alpha exactly if `shift` excludes 0
    least_p: bool  # this many launches cannot give a smaller one
    modes: tuple[Modes | None, ...]  # of each side's log speed-ups across launches
    anytime: bool  # the interval holds at any stopping time, see stats/sequential.py
    shared: float = 0.0  # the shift that most cases have, if within the tolerance


@dataclass(frozen=True, slots=True)
class Comparison:
    """One candidate on one case: the estimate from a pairing; None if a failure prevents it."""

    pairing: Pairing
    estimate: Estimate | None

    @property
    def case(self) -> Identified:
        return self.pairing.case

    @property
    def candidate(self) -> str:
        return self.pairing.candidate

    @property
    def failure(self) -> Failure | None:
        return self.pairing.failure

    @property
    def shift(self) -> Shift | None:
        return self.estimate.shift if self.estimate else None

    @property
    def p_family(self) -> float | None:
        return self.estimate.p_family if self.estimate else None

    @property
    def least_p(self) -> bool:
        return self.estimate is not None and self.estimate.least_p


def against_baseline(
    data: LaunchData, against: str, alpha: float, tolerance: float
) -> list[Comparison]:
    """Every candidate against `against`: "sdpa" (the default baseline, also of other operations) or
    "best".

    Choosing the best from the same data favours it, so the family counts every backend that could
    have been chosen.
    """
    pairings, choices = with_baseline(data, against, tolerance)
    return decide_family(pairings, alpha, tolerance, choices * looks(data))


def between_runs(a: LaunchData, b: LaunchData, alpha: float, tolerance: float) -> list[Comparison]:
    """Every candidate and case in A: its speed over SDPA's default in B against that in A."""
    return decide_family(of_runs(a, b, tolerance), alpha, tolerance, looks(a, b))


def looks(*data: LaunchData) -> int:
    """How many comparisons one counts as: more if launches were added to a file that may have been
    compared before."""
    return look_price(sum(len(side.run.settings.earlier) for side in data))


def between_builds(data: LaunchData, alpha: float, tolerance: float) -> list[Comparison]:
    """The new build of a run file's pair against the old.

    The intervals hold at every look (`stats/sequential.py`), because cases leave the plan when they
    are decided.
    """
    return decide_family(of_builds(data, tolerance), alpha, tolerance, 1, anytime=True)


def if_correlated(comparison: Comparison, correlation: float) -> Shift:
    """The shift of a comparison with an estimate if its launches had this correlation."""
    found = comparison.estimate
    assert found is not None
    sides = comparison.pairing.sides
    terms = replace(found.terms, correlation=correlation)
    return _allowing_for_order(sides, terms, anytime=found.anytime)


def geometric_mean(comparisons: Sequence[Comparison], alpha: float) -> Shift | None:
    """Shift of the mean log speed-up over the compared cases; None without any.

    Computed launch by launch over the launches that have every case, so an effect of one launch on
    all cases widens the interval. It is a lone interval with confidence 1 - alpha.
    """
    compared = [(c.pairing, c.estimate) for c in comparisons if c.estimate is not None]
    if not compared:
        return None
    value = float(np.mean([estimate.shift.value for _, estimate in compared]))
    means = []
    for side in range(len(compared[0][0].sides)):
        rows = by_launch([pairing for pairing, _ in compared], side)
        common = ~np.isnan(rows).any(axis=0)
        if not common.any():
            return Shift(value, -math.inf, math.inf, 1.0)
        means.append(np.mean(rows[:, common], axis=0))
    family = [estimate.terms for _, estimate in compared]
    correlation = max(terms.correlation for terms in family)
    terms = IntervalTerms(alpha, 1, correlation, any(terms.modes for terms in family))
    shift = _allowing_for_order(tuple(means), terms, anytime=compared[0][1].anytime)
    return replace(shift, value=min(max(value, shift.low), shift.high))


def _shift(sides: tuple[FloatArray, ...], alpha: float) -> Shift:
    if len(sides) == 1:
        return paired_shift(sides[0], alpha)
    return unlike_shift(sides[0], sides[1], alpha)


def _allowing_for_order(
    sides: tuple[FloatArray, ...], terms: IntervalTerms, *, anytime: bool = False
) -> Shift:
    """The shift with its interval widened for correlated launches, and the p-value that goes with
    it: a wider interval excludes 0 exactly when the plain one excludes a point nearer to the value.
    """
    if anytime:
        return anytime_shift(sides[0], terms)
    shift = _shift(sides, terms.alpha)
    return _stretched(shift, sides, terms) if terms.correlation else shift


def _stretched(shift: Shift, sides: tuple[FloatArray, ...], terms: IntervalTerms) -> Shift:
    alpha = terms.alpha
    factor = stretch(terms.correlation, min(map(len, sides)), alpha)
    nearer = shift.value * (1 - 1 / factor)
    p = 1.0 if math.isinf(factor) else _shift((*sides[:-1], sides[-1] - nearer), alpha).p
    return replace(widened(shift, factor), p=p)


def decide_family(
    pairings: list[Pairing], alpha: float, tolerance: float, choices: int, *, anytime: bool = False
) -> list[Comparison]:
    """Give every pairing an interval at the level required by the number of comparisons.

    choices: how many comparisons each one was chosen from. anytime: paired launches with a look
    after each, a case leaving when decided. A case's verdict depends only on the launches up to its
    own last one, so it is the same at the stop and when read from the file later.
    """
    return decide_families([pairings], alpha, tolerance, choices, anytime=anytime)[0]


def decide_families(
    families: Sequence[list[Pairing]],
    alpha: float,
    tolerance: float,
    choices: int,
    *,
    anytime: bool = False,
) -> list[list[Comparison]]:
    """`decide_family` of each, in less time than one after another."""
    compared: list[Pairing] = []
    levels: list[IntervalTerms] = []
    shared: list[float] = []
    shifts: list[Shift] = []
    for pairings in families:
        measured = [pairing for pairing in pairings if pairing.failure is None]
        assert not anytime or all(len(pairing.sides) == 1 for pairing in measured)
        # With looks as it grows, the family must be the planned one: later failures count too.
        comparisons = choices * len(pairings if anytime else measured)
        level = simultaneous_alpha(alpha, comparisons)
        if anytime:
            lasts = [int(pairing.launch_numbers(0)[-1]) for pairing in measured]
            known = {last: noise_until(last, measured, tolerance) for last in set(lasts)}
            noises = [known[last] for last in lasts]
        else:
            plain = [_shift(pairing.sides, level) for pairing in measured]
            values = np.array([shift.value for shift in plain])
            noises = [noise_of_all(measured, values, tolerance)] * len(measured)
            shifts += plain
        compared += measured
        levels += [IntervalTerms(level, comparisons, one.correlation, one.modes) for one in noises]
        shared += [one.shared for one in noises]
    if anytime:
        shifts = _anytime([pairing.sides[0] for pairing in compared], levels)
    else:
        shifts = [
            _stretched(shift, pairing.sides, terms) if terms.correlation else shift
            for shift, pairing, terms in zip(shifts, compared, levels, strict=True)
        ]

    def estimated(pairing: Pairing, shift: Shift, terms: IntervalTerms, common: float) -> Estimate:
        modes = tuple(two_modes(side, math.log1p(tolerance)) for side in pairing.sides)
        least = not anytime and shift.p <= smallest_p(*pairing.launches) < 1
        p = min(1.0, shift.p * alpha / terms.alpha)
        return Estimate(shift, terms, p, least, modes, anytime, common)

    estimates = map(estimated, compared, shifts, levels, shared)
    return [
        [Comparison(p, next(estimates) if p.failure is None else None) for p in pairings]
        for pairings in families
    ]


def _anytime(sides: list[FloatArray], levels: list[IntervalTerms]) -> list[Shift]:
    """Shifts of cases that may have left the plan at different launches."""
    alike: dict[tuple[int, IntervalTerms], list[int]] = {}
    for place, rule in enumerate(zip(map(len, sides), levels, strict=True)):
        alike.setdefault(rule, []).append(place)
    shifts: dict[int, Shift] = {}
    for (_, terms), places in alike.items():
        rows = np.stack([sides[place] for place in places])
        shifts |= dict(zip(places, anytime_shifts(rows, terms), strict=True))
    return [shifts[place] for place in range(len(sides))]
