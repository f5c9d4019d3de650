"""Comparison: what the launches say about the speed-up of one candidate on one case.

One run file: the candidate against SDPA, paired inside each launch. Two: the candidate's speed over
SDPA in B against the same in A, so what moves SDPA too is the machine's and cancels. Two builds in
one run file: the new one against the old, paired inside each launch.
All speed-ups are log(old time / new time): above 0 is faster.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flashbench.errors import InvalidInputError
from flashbench.launches import Failure, LaunchData, baseline_index, baselines_of, own_candidates
from flashbench.stats.family import holm, simultaneous_alpha
from flashbench.stats.modes import Modes, two_modes
from flashbench.stats.order import (
    SIGNIFICANCE,
    SIGNIFICANCE_ANYTIME,
    launch_correlation,
    stretch,
    widened,
)
from flashbench.stats.sequential import anytime_shift
from flashbench.stats.shift import Shift, paired_shift, unpaired_shift

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]
BEST = "best"


class Identified(Protocol):
    """What is compared: a case, or what another tool measured."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """One candidate on one case: the speed-up over `against`, or the failure that prevents it."""

    case: Identified
    candidate: str
    against: str
    metric: str
    sides: tuple[FloatArray, ...] = ()  # log speed-ups a launch: one side paired, two (A, B) not
    numbers: tuple[IntArray, ...] = ()  # the launch of each of these, an index into the file's
    shift: Shift | None = None  # of confidence 1 - alpha / family
    alpha: float = 0.05  # of this interval, the family already divided out
    p_family: float = 1.0  # Holm-adjusted
    modes: Modes | None = None  # of the log speed-up across launches, on either side
    time_modes: bool = False  # a time itself, not the ratio, has two modes
    machine: Shift | None = None  # log(SDPA in A / SDPA in B), two files only
    failure: Failure | None = None
    partial: Failure | None = None  # some launches failed, others are compared
    correlation: float = 0.0  # of neighbouring launches over the family; the interval allows for it
    anytime: bool = False  # the interval holds whenever one stops, see stats/sequential.py

    @property
    def launches(self) -> tuple[int, ...]:
        return tuple(len(side) for side in self.sides)


def against_sdpa(
    data: LaunchData, against: str, alpha: float, tolerance: float
) -> list[Comparison]:
    """Every candidate that is not SDPA's against `against`: "sdpa" (its default) or "best".

    "best" is the SDPA backend with the lowest median time on the case. Choosing it from the same
    data favours it, so its family counts every backend that could have been chosen.
    """
    choices = 1
    found: list[Comparison] = []
    for index, candidate in own_candidates(data.run):
        default = baseline_index(data.run, candidate.name)
        if default is None:
            raise InvalidInputError(
                "no SDPA baseline in the run file; measure again with the candidate `sdpa`"
            )
        baselines = baselines_of(data.run, candidate.name)
        choices = len(baselines) if against == BEST else 1
        ratios = {b: data.speedups(index, b) for b in (baselines if against == BEST else [default])}
        for case_index, case in enumerate(data.run.cases):
            best = best_baseline(data, case_index, candidate.name)
            base = best if against == BEST else default
            base = default if base is None else base
            name = data.run.candidates[base].name
            blank = Comparison(case, candidate.name, name, data.metrics[case_index])
            ratio = ratios[base][case_index]
            found.append(_prepare(data, index, base, case_index, blank, ratio, tolerance))
    return decide_family(found, alpha, tolerance, choices)


def between_runs(a: LaunchData, b: LaunchData, alpha: float, tolerance: float) -> list[Comparison]:
    """Every candidate and case that A has: its speed over SDPA's default in B against that in A.

    Candidates go by name; where each file has exactly one, the two are compared whatever the names.
    Raises InvalidInputError when the files have nothing in common.
    """
    if baseline_index(a.run) is None or baseline_index(b.run) is None:
        side = "first" if baseline_index(a.run) is None else "second"
        raise InvalidInputError(
            f"the {side} run file has no SDPA, the control of the comparison; measure again"
        )
    pairs = _paired_candidates(a, b)
    if not pairs or not a.case_index.keys() & b.case_index.keys():
        what = "candidate" if not pairs else "case"
        raise InvalidInputError(f"nothing to compare: the two run files have no {what} in common")
    found: list[Comparison] = []
    for index_a, index_b in pairs:
        name_a, name_b = a.run.candidates[index_a].name, b.run.candidates[index_b].name
        base_a, base_b = baseline_index(a.run, name_a), baseline_index(b.run, name_b)
        assert base_a is not None
        assert base_b is not None
        ratios_a, ratios_b = a.speedups(index_a, base_a), b.speedups(index_b, base_b)
        for case_a, case in enumerate(a.run.cases):
            case_b = b.case_index.get(case.id)
            blank = Comparison(case, name_b, name_a, a.metrics[case_a])
            if case_b is None:
                failure = Failure("missing", "the case is not in the second run file")
                found.append(replace(blank, failure=failure))
                continue
            old = _prepare(a, index_a, base_a, case_a, blank, ratios_a[case_a], tolerance)
            new = _prepare(b, index_b, base_b, case_b, blank, ratios_b[case_b], tolerance)
            controls = (a.launch_medians(base_a, case_a), b.launch_medians(base_b, case_b))
            found.append(_join(old, new, controls))
    return decide_family(found, alpha, tolerance, 1)


def between_builds(data: LaunchData, alpha: float, tolerance: float) -> list[Comparison]:
    """The new build of a run file's pair against the old, by the launches that have both.

    The intervals hold whenever one looks (`stats/sequential.py`), as cases leave the plan when they
    are decided. Raises InvalidInputError for a file without a pair.
    """
    pair = data.run.pair
    if pair is None:
        raise InvalidInputError("the run file holds no two builds to compare")
    old, new = data.candidate_index[pair.old], data.candidate_index[pair.new]
    ratios = data.speedups(new, old)
    found = []
    for case_index, case in enumerate(data.run.cases):
        blank = Comparison(case, pair.new, pair.old, data.metrics[case_index], anytime=True)
        ratio = ratios[case_index]
        found.append(_prepare(data, new, old, case_index, blank, ratio, tolerance))
    return decide_family(found, alpha, tolerance, 1, anytime=True)


def best_baseline(data: LaunchData, case: int, candidate: str = "") -> int | None:
    """Index of the SDPA backend with the lowest median over launches, or None: none was timed.

    candidate: in whose process, as of `baselines_of`.
    """
    found = {}
    for index in baselines_of(data.run, candidate):
        time = data.median_us(index, case)
        if time is not None:
            found[index] = time
    return min(found, key=found.__getitem__) if found else None


def geometric_mean(comparisons: Sequence[Comparison], alpha: float) -> Shift | None:
    """Shift of the mean log speed-up over the cases that were compared; None without any.

    Launch by launch, over the launches that have every case, so that what one launch does to all
    cases at once widens the interval, which has confidence 1 - alpha for itself.
    """
    compared = [c for c in comparisons if c.shift is not None]
    if not compared:
        return None
    value = float(np.mean([c.shift.value for c in compared if c.shift]))
    means = []
    for side in range(len(compared[0].sides)):
        common = reduce(np.intersect1d, [c.numbers[side] for c in compared])
        if not len(common):
            return Shift(value, -math.inf, math.inf, 1.0)
        rows = [c.sides[side][np.isin(c.numbers[side], common)] for c in compared]
        means.append(np.mean(np.stack(rows), axis=0))
    correlation = max(c.correlation for c in compared)
    shift = _allowing_for_order(tuple(means), alpha, correlation, anytime=compared[0].anytime)
    return replace(shift, value=min(max(value, shift.low), shift.high))


def _paired_candidates(a: LaunchData, b: LaunchData) -> list[tuple[int, int]]:
    own_a, own_b = own_candidates(a.run), own_candidates(b.run)
    if len(own_a) == len(own_b) == 1:
        return [(own_a[0][0], own_b[0][0])]
    names_b = {candidate.name: index for index, candidate in own_b}
    return [(i, names_b[c.name]) for i, c in own_a if c.name in names_b]


def _prepare(
    data: LaunchData,
    candidate: int,
    baseline: int,
    case: int,
    blank: Comparison,
    ratios: FloatArray,
    tolerance: float,
) -> Comparison:
    """Fill in one side: its launches, or the failure that leaves none of them."""
    for index in (candidate, baseline):
        if data.is_wrong(index, case):
            wrong = data.failure(index, case)
            assert wrong is not None
            if index == baseline:
                who = _called(data, baseline)
                wrong = Failure("control", f"{who} itself is wrong: {wrong.reason}")
            return replace(blank, failure=wrong)
    numbers = np.flatnonzero(~np.isnan(ratios))
    present = ratios[numbers]
    if not len(present):
        return replace(blank, failure=_why_missing(data, candidate, baseline, case))
    partial = data.failure(candidate, case) or data.failure(baseline, case)
    time_modes = any(
        two_modes(data.launch_medians(index, case), math.log1p(tolerance)) is not None
        for index in (candidate, baseline)
    )
    return replace(
        blank, sides=(present,), numbers=(numbers,), partial=partial, time_modes=time_modes
    )


def _called(data: LaunchData, candidate: int) -> str:
    """How messages call what a candidate is compared with."""
    found = data.run.candidates[candidate]
    return "SDPA" if found.baseline else found.name


def _why_missing(data: LaunchData, candidate: int, baseline: int, case: int) -> Failure:
    for index in (candidate, baseline):
        if failure := data.failure(index, case):
            name = "" if index == candidate else f"{_called(data, index)}: "
            return replace(failure, reason=name + failure.reason)
    metric = data.metrics[case]
    for index in (candidate, baseline):
        there = data.measured_metrics(index, case)
        if there and metric not in there:
            name = data.run.candidates[index].name
            return Failure("missing", f"no {metric} times of {name}; it has {', '.join(there)}")
    return Failure("missing", "never measured: the run was stopped before its turn")


def _join(old: Comparison, new: Comparison, controls: tuple[FloatArray, FloatArray]) -> Comparison:
    if new.failure is not None:
        return new
    if old.failure is not None:
        reason = f"in the first run file: {old.failure.status} {old.failure.reason}".rstrip()
        return replace(new, sides=(), failure=Failure("missing", reason, old.failure.launches))
    return replace(
        new,
        sides=(*old.sides, *new.sides),
        numbers=(*old.numbers, *new.numbers),
        partial=new.partial or old.partial,
        time_modes=old.time_modes or new.time_modes,
        machine=unpaired_shift(-controls[0], -controls[1], 0.05),
    )


def _launch_correlation(compared: list[Comparison], until: int | None = None) -> float:
    """The larger of the two files'; over all cases, from the launches up to number `until`."""
    significance = SIGNIFICANCE if until is None else SIGNIFICANCE_ANYTIME
    correlations = [0.0]
    for side in range(len(compared[0].sides) if compared else 0):
        last = max(int(_numbers(c, side)[-1]) for c in compared)
        launches = last + 1 if until is None else min(last, until) + 1
        rows = np.full((len(compared), launches), np.nan)
        for row, comparison in zip(rows, compared, strict=True):
            numbers = _numbers(comparison, side)
            seen = numbers < launches
            row[numbers[seen]] = comparison.sides[side][seen]
        correlations.append(launch_correlation(rows, significance))
    return max(correlations)


def _numbers(comparison: Comparison, side: int) -> IntArray:
    if comparison.numbers:
        return comparison.numbers[side]
    return np.arange(len(comparison.sides[side]))


def _shift(sides: tuple[FloatArray, ...], alpha: float) -> Shift:
    if len(sides) == 1:
        return paired_shift(sides[0], alpha)
    return unpaired_shift(sides[0], sides[1], alpha)


def _allowing_for_order(
    sides: tuple[FloatArray, ...], alpha: float, correlation: float, *, anytime: bool = False
) -> Shift:
    """The shift with its interval widened for correlated launches, and the p-value that goes with
    it: a wider interval excludes 0 exactly when the plain one excludes a point nearer to the value.
    """
    if anytime:
        return anytime_shift(sides[0], alpha, correlation)
    shift = _shift(sides, alpha)
    if correlation == 0:
        return shift
    factor = stretch(correlation, min(map(len, sides)), alpha)
    nearer = shift.value * (1 - 1 / factor)
    p = 1.0 if math.isinf(factor) else _shift((*sides[:-1], sides[-1] - nearer), alpha).p
    return replace(widened(shift, factor), p=p)


def decide_family(
    found: list[Comparison],
    alpha: float,
    tolerance: float,
    choices: int,
    *,
    anytime: bool = False,
) -> list[Comparison]:
    """Give every comparison its interval at the level that the number of comparisons asks for.

    choices: how many comparisons each one was chosen from. anytime: paired launches that were
    looked at as they came, a case leaving when it was decided. What is said of a case follows from
    the launches up to its own last one, so it is the same at the stop and read from the file later.
    """
    compared = [c for c in found if c.failure is None]
    assert not anytime or all(len(c.sides) == 1 for c in compared)
    # Looked at as it grows, the family has to be the planned one: who fails later counts as well.
    level = simultaneous_alpha(alpha, choices * len(found if anytime else compared))
    correlations: dict[int | None, float] = {}
    out = []
    for comparison in found:
        if comparison.failure is None:
            until = int(_numbers(comparison, 0)[-1]) if anytime else None
            if until not in correlations:
                correlations[until] = _launch_correlation(compared, until)
            correlation = correlations[until]
            modes = [two_modes(side, math.log1p(tolerance)) for side in comparison.sides]
            comparison = replace(
                comparison,
                shift=_allowing_for_order(comparison.sides, level, correlation, anytime=anytime),
                correlation=correlation,
                alpha=level,
                modes=next((m for m in modes if m), None),
                anytime=anytime,
            )
        out.append(comparison)
    adjusted = iter(holm([choices * c.shift.p for c in out if c.shift]))
    return [replace(c, p_family=min(1.0, next(adjusted))) if c.shift else c for c in out]
