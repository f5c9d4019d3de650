"""Compare benchmarks: B against A, or every candidate against SDPA in the same launches.

Uses the statistics of `flashbench/comparison.py` on one number per launch. If both sides have
SDPA's time on the case, SDPA is the control, as between two run files; otherwise the times
themselves are compared.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from flashbench import operations
from flashbench.arrays import FloatArray
from flashbench.comparison import Comparison, decide_family
from flashbench.errors import InvalidInputError
from flashbench.launches import Failure
from flashbench.other_tools.benchmarks import (
    NOT_STATED,
    SECONDS,
    BenchmarkSet,
    BenchmarkTimes,
)
from flashbench.pairing import Pairing
from flashbench.stats.modes import two_modes
from flashbench.stats.shift import unpaired_shift

_MatchKey = tuple[str, ...]
MACHINE_ALPHA = 0.05  # of the machine's own interval, as between run files


@dataclass(frozen=True, slots=True)
class Named:
    """The subject of a comparison that is not one of our cases."""

    id: str


@dataclass(frozen=True, slots=True)
class Match:
    """One benchmark on both sides. b is None if only A has it. Within one set, a is SDPA."""

    name: str
    a: BenchmarkTimes
    b: BenchmarkTimes | None

    @property
    def control(self) -> str:
        """How its baseline is called."""
        return operations.control_of((self.b or self.a).case)

    @property
    def controlled(self) -> bool:
        """Whether both sides measured SDPA beside it."""
        return self.b is not None and bool(len(self.a.speedups) and len(self.b.speedups))


def matched(a: BenchmarkSet, b: BenchmarkSet) -> list[Match]:
    """Match every benchmark of A with its counterpart in B.

    Benchmarks match by our case and candidate, or else, within one tool, by name. If each side has
    a single candidate, its name does not matter. SDPA is never a candidate. Raises
    InvalidInputError if nothing matches.
    """
    alone = len(_candidates(a)) == len(_candidates(b)) == 1
    keys_b = _keyed(b, alone)
    matches = []
    for key, benchmark in _keyed(a, alone).items():
        if a.tool != b.tool and not benchmark.case:
            continue  # names differ between tools: nothing is missing in B
        name = benchmark.case if benchmark.case and key[0] == benchmark.case else benchmark.name
        matches.append(Match(name, benchmark, keys_b.get(key)))
    if all(match.b is None for match in matches):
        raise InvalidInputError(
            f"nothing to compare: {a.source} ({a.tool}) and {b.source} ({b.tool}) have no "
            "benchmark in common: no name, and no case of ours with the same candidate"
        )
    return matches


def beside(one: BenchmarkSet) -> list[Match]:
    """Match every candidate on one of our cases with the SDPA of the same launches.

    Empty if the set has no SDPA.
    """
    matches = []
    for benchmark in one.benchmarks:
        if benchmark.case and benchmark.unit == SECONDS and not benchmark.baseline:
            control = one.control(benchmark.case, benchmark.metric)
            matches.append(
                Match(
                    benchmark.case,
                    control or BenchmarkTimes(operations.control_of(benchmark.case)),
                    benchmark,
                )
            )
    return matches if any(len(match.a.times) for match in matches) else []


def compare(
    matches: list[Match], alpha: float, tolerance: float, *, paired: bool
) -> list[Comparison]:
    """One comparison per match. paired: against SDPA in the same launches, else B against A."""
    found = [_paired(p, tolerance) if paired else _unpaired(p, tolerance) for p in matches]
    return decide_family(found, alpha, tolerance, 1)


def controls(
    a: BenchmarkSet, b: BenchmarkSet, match: Match
) -> tuple[BenchmarkTimes, BenchmarkTimes] | None:
    """SDPA on both sides for the match's case; None if SDPA is not its control."""
    if match.b is None or not match.controlled:
        return None
    found = a.control(match.a.case, match.a.metric), b.control(match.b.case, match.b.metric)
    return (found[0], found[1]) if found[0] and found[1] else None


def with_machine(
    comparisons: list[Comparison], matches: list[Match], a: BenchmarkSet, b: BenchmarkSet
) -> list[Comparison]:
    """Fill in the machine's own change from A to B, measured by SDPA."""
    out = []
    for comparison, match in zip(comparisons, matches, strict=True):
        if comparison.failure is None and (both := controls(a, b, match)):
            old, new = map(_log_speed, both)
            machine = unpaired_shift(old, new, MACHINE_ALPHA)
            comparison = replace(comparison, pairing=replace(comparison.pairing, machine=machine))
        out.append(comparison)
    return out


def _candidates(one: BenchmarkSet) -> set[str]:
    own = (s for s in one.benchmarks if s.case and not s.baseline)
    return {benchmark.candidate for benchmark in own if benchmark.unit in (SECONDS, NOT_STATED)}


def _keyed(one: BenchmarkSet, alone: bool) -> dict[_MatchKey, BenchmarkTimes]:
    """Benchmarks by the key that `matched` uses; by name if that key is ambiguous."""
    own = [benchmark for benchmark in one.benchmarks if not benchmark.baseline]
    keys: list[_MatchKey] = []
    for benchmark in own:
        timed = benchmark.unit in (SECONDS, NOT_STATED)
        candidate = "" if alone and timed else benchmark.candidate
        keys.append((benchmark.case, candidate) if benchmark.case else (benchmark.name,))
    return {
        key if keys.count(key) == 1 else (benchmark.name,): benchmark
        for key, benchmark in zip(keys, own, strict=True)
    }


def _blank(match: Match) -> Pairing:
    new = (match.b or match.a).candidate
    metric = (match.b.metric if match.b else "") or match.a.metric
    return Pairing(Named(match.name), new or "B", match.a.candidate or "A", metric)


def _paired(match: Match, tolerance: float) -> Pairing:
    assert match.b is not None
    blank = _blank(match)
    if match.b.failure or not len(match.b.speedups):
        missing = Failure("missing", f"no launch has both its time and {match.control}'s")
        return replace(blank, failure=match.b.failure or missing)
    speedups = match.b.speedups
    return replace(
        blank,
        sides=(speedups.values,),
        numbers=(speedups.numbers,),
        partial=match.b.partial,
        time_modes=_time_modes((match.a, match.b), tolerance),
    )


def _unpaired(match: Match, tolerance: float) -> Pairing:
    a, b, blank = match.a, match.b, _blank(match)
    if b is None:
        return replace(blank, failure=Failure("missing", "it is not in B"))
    if b.failure:
        return replace(blank, failure=b.failure)
    if a.failure:
        reason = f"in A: {a.failure.status.replace('missing', '')} {a.failure.reason}"
        return replace(blank, failure=Failure("missing", " ".join(reason.split())))
    for what, old, new in (("unit", a.unit, b.unit), ("metric", a.metric, b.metric)):
        if old != new and old and new:
            reason = f"the {what} differs: {old} in A, {new} in B"
            return replace(blank, failure=Failure("missing", reason))
    if match.controlled:
        return replace(
            blank,
            sides=(a.speedups.values, b.speedups.values),
            numbers=(a.speedups.numbers, b.speedups.numbers),
            partial=b.partial or a.partial,
            time_modes=_time_modes((a, b), tolerance),
        )
    return replace(
        blank,
        sides=(_log_speed(a), _log_speed(b)),
        numbers=(a.times.numbers, b.times.numbers),
        partial=b.partial or a.partial,
    )


def _log_speed(benchmark: BenchmarkTimes) -> FloatArray:
    speed: FloatArray = -np.log(benchmark.times.values)
    return speed


def _time_modes(both: tuple[BenchmarkTimes, BenchmarkTimes], tolerance: float) -> bool:
    limit = math.log1p(tolerance)
    return any(two_modes(np.log(benchmark.times.values), limit) is not None for benchmark in both)
