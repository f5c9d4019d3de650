"""Pairing: the launches that compare one candidate on one case, or why there are none.

One run file: the candidate against SDPA, paired inside each launch. Two: the candidate's speed over
SDPA in B against the same in A, so whatever affects SDPA too is the machine's and cancels. Two
builds in one run file: the new one against the old, paired inside each launch. All speed-ups are
log(old time / new time): above 0 is faster.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from flashbench.arrays import FloatArray, IntArray
from flashbench.baseline_names import title
from flashbench.errors import InvalidInputError
from flashbench.launches import (
    Failure,
    LaunchData,
    baseline_index,
    baselines_of,
    own_candidates,
)
from flashbench.stats.modes import two_modes
from flashbench.stats.shift import Shift, unpaired_shift

BEST = "best"


class Identified(Protocol):
    """The subject of a comparison: a case, or another tool's benchmark."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Pairing:
    """One candidate on one case, with its launches and those of `against`, or the failure."""

    case: Identified
    candidate: str
    against: str
    metric: str
    sides: tuple[
        FloatArray, ...
    ] = ()  # log speed-ups by launch: one side if paired, two (A, B) if not
    numbers: tuple[IntArray, ...] = ()  # the launch of each, as an index into the file's launches
    time_modes: bool = False  # the times, not the ratio, have two modes
    machine: Shift | None = None  # log(SDPA in A / SDPA in B), two files only
    failure: Failure | None = None
    partial: Failure | None = None  # some launches failed, the others are compared

    @property
    def launches(self) -> tuple[int, ...]:
        return tuple(len(side) for side in self.sides)

    def launch_numbers(self, side: int) -> IntArray:
        return self.numbers[side] if self.numbers else np.arange(len(self.sides[side]))


def with_baseline(data: LaunchData, against: str, tolerance: float) -> tuple[list[Pairing], int]:
    """Every candidate except SDPA's own with `against`: "sdpa" (its default) or "best"; and from
    how many baselines each was chosen.

    "best" is the SDPA backend with the lowest median time on the case.
    """
    choices = 1
    found: list[Pairing] = []
    for index, candidate in own_candidates(data.run):
        default = baseline_index(data.run, candidate.name)
        if default is None:
            raise InvalidInputError("no baseline in the run file; measure again with it")
        baselines = baselines_of(data.run, candidate.name)
        choices = len(baselines) if against == BEST else 1
        ratios = {b: data.speedups(index, b) for b in (baselines if against == BEST else [default])}
        for case_index, case in enumerate(data.run.cases):
            best = best_baseline(data, case_index, candidate.name)
            base = best if against == BEST else default
            base = default if base is None else base
            name, metric = data.run.candidates[base].name, data.metrics[case_index]
            side = _side(data, index, base, case_index, ratios[base][case_index], tolerance)
            found.append(_pairing(case, candidate.name, name, metric, side))
    return found, choices


def of_runs(a: LaunchData, b: LaunchData, tolerance: float) -> list[Pairing]:
    """Every candidate and case in A: its speed over SDPA's default in B with that in A.

    Candidates are matched by name; if each file has exactly one, names do not matter.
    Raises InvalidInputError when the files have nothing in common.
    """
    if baseline_index(a.run) is None or baseline_index(b.run) is None:
        side = "first" if baseline_index(a.run) is None else "second"
        raise InvalidInputError(
            f"the {side} run file has no baseline, the control of the comparison; measure again"
        )
    pairs = _paired_candidates(a, b)
    if not pairs or not a.case_index.keys() & b.case_index.keys():
        what = "candidate" if not pairs else "case"
        raise InvalidInputError(f"nothing to compare: the two run files have no {what} in common")
    found: list[Pairing] = []
    for index_a, index_b in pairs:
        name_a, name_b = a.run.candidates[index_a].name, b.run.candidates[index_b].name
        base_a, base_b = baseline_index(a.run, name_a), baseline_index(b.run, name_b)
        assert base_a is not None
        assert base_b is not None
        ratios_a, ratios_b = a.speedups(index_a, base_a), b.speedups(index_b, base_b)
        for case_a, case in enumerate(a.run.cases):
            case_b = b.case_index.get(case.id)
            place = case, name_b, name_a, a.metrics[case_a]
            if case_b is None:
                failure = Failure("missing", "the case is not in the second run file")
                found.append(_pairing(*place, failure))
                continue
            old = _side(a, index_a, base_a, case_a, ratios_a[case_a], tolerance)
            new = _side(b, index_b, base_b, case_b, ratios_b[case_b], tolerance)
            controls = (a.launch_medians(base_a, case_a), b.launch_medians(base_b, case_b))
            found.append(_pairing(*place, *_both(old, new), controls=controls))
    paired = {index_a for index_a, _ in pairs}
    failure = Failure("missing", "the candidate is not in the second run file")
    for index, candidate in own_candidates(a.run):
        if index not in paired:
            name = candidate.name
            found += [
                _pairing(case, name, name, metric, failure)
                for case, metric in zip(a.run.cases, a.metrics, strict=True)
            ]
    return found


def of_builds(data: LaunchData, tolerance: float) -> list[Pairing]:
    """The new build of a run file's pair with the old, from the launches that have both.

    Raises InvalidInputError for a file without a pair.
    """
    pair = data.run.pair
    if pair is None:
        raise InvalidInputError("the run file holds no two builds to compare")
    old, new = data.candidate_index[pair.old], data.candidate_index[pair.new]
    ratios = data.speedups(new, old)
    found = []
    for case_index, case in enumerate(data.run.cases):
        side = _side(data, new, old, case_index, ratios[case_index], tolerance)
        found.append(_pairing(case, pair.new, pair.old, data.metrics[case_index], side))
    return found


def best_baseline(data: LaunchData, case: int, candidate: str = "") -> int | None:
    """Index of the SDPA backend with the lowest median over launches; None if none was timed.

    candidate: in whose process, as in `baselines_of`.
    """
    found = {}
    for index in baselines_of(data.run, candidate):
        time = data.median_us(index, case)
        if time is not None:
            found[index] = time
    return min(found, key=found.__getitem__) if found else None


def _paired_candidates(a: LaunchData, b: LaunchData) -> list[tuple[int, int]]:
    own_a, own_b = own_candidates(a.run), own_candidates(b.run)
    if len(own_a) == len(own_b) == 1:
        return [(own_a[0][0], own_b[0][0])]
    names_b = {candidate.name: index for index, candidate in own_b}
    return [(i, names_b[c.name]) for i, c in own_a if c.name in names_b]


class _Side(NamedTuple):
    """The measured launches of one side, as the fields of a `Pairing`."""

    speedups: FloatArray
    numbers: IntArray
    partial: Failure | None
    time_modes: bool


def _side(
    data: LaunchData,
    candidate: int,
    baseline: int,
    case: int,
    ratios: FloatArray,
    tolerance: float,
) -> _Side | Failure:
    """The side's launches, or the failure that leaves none."""
    for index in (candidate, baseline):
        if data.is_wrong(index, case):
            wrong = data.failure(index, case)
            assert wrong is not None
            if index == baseline:
                who = _called(data, baseline)
                wrong = Failure("control", f"{who} itself is wrong: {wrong.reason}")
            return wrong
    numbers = np.flatnonzero(~np.isnan(ratios))
    present = ratios[numbers]
    if not len(present):
        return _why_missing(data, candidate, baseline, case)
    partial = data.failure(candidate, case) or data.failure(baseline, case)
    time_modes = any(
        two_modes(data.launch_medians(index, case), math.log1p(tolerance)) is not None
        for index in (candidate, baseline)
    )
    return _Side(present, numbers, partial, time_modes)


def _both(old: _Side | Failure, new: _Side | Failure) -> tuple[_Side | Failure, ...]:
    """Both sides, or the failure of one and what is known of B."""
    if isinstance(new, Failure):
        return (new,)
    if isinstance(old, Failure):
        reason = f"in the first run file: {old.status} {old.reason}".rstrip()
        return Failure("missing", reason, old.launches), new
    return old, new


def _pairing(
    case: Identified,
    candidate: str,
    against: str,
    metric: str,
    *found: _Side | Failure,
    controls: tuple[FloatArray, FloatArray] | None = None,
) -> Pairing:
    """found: the sides, or a failure. controls: the baseline's log times in A and B."""
    known = [one for one in found if isinstance(one, _Side)]
    failure = next((one for one in found if isinstance(one, Failure)), None)
    sides = [] if failure else known
    machine = None
    if controls is not None and failure is None:
        machine = unpaired_shift(-controls[0], -controls[1], 0.05)
    return Pairing(
        case,
        candidate,
        against,
        metric,
        tuple(side.speedups for side in sides),
        tuple(side.numbers for side in sides),
        any(side.time_modes for side in sides),
        machine,
        failure,
        next((side.partial for side in reversed(known) if side.partial), None),
    )


def _called(data: LaunchData, candidate: int) -> str:
    """A candidate's name in messages."""
    found = data.run.candidates[candidate]
    return title(found.spec) if found.baseline else found.name


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
            return Failure("missing", f"{name} has no {metric} times; it has {', '.join(there)}")
    return Failure("missing", "never measured: the run was stopped before its turn")
