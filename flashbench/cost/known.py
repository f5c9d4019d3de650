"""Experience with a device: from its earlier runs, from similar cases, or just from a case's
operations."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from statistics import median

from flashbench.case import Case
from flashbench.cost import store
from flashbench.cost.decision import launches_until_decided, spread_factor
from flashbench.cost.estimate import Around, Seconds, Speed, Start, Work, total_seconds
from flashbench.cost.store import CaseCost, MachineCosts, start_key
from flashbench.errors import InvalidInputError
from flashbench.machine import name_of
from flashbench.operations import parse_case
from flashbench.stats.family import simultaneous_alpha
from flashbench.stats.sequential import IntervalTerms


class Basis(StrEnum):
    """KNOWN: these cases were measured here; NEAR: others on this machine; GUESS: none."""

    KNOWN = "known"
    NEAR = "near"
    GUESS = "guess"


# The range of an estimate, as factors, until enough runs show it.
_RANGES = {Basis.KNOWN: (0.65, 1.6), Basis.NEAR: (0.5, 2.0), Basis.GUESS: (0.3, 3.0)}
_NARROWEST = (0.9, 1.1)
_ENOUGH = 19  # runs: nine in ten later ones likely lie between the least and the most of these

# Guesses, deliberately round: operations per second, seconds of an almost empty call, of the starts
# of launches, of the overhead of a turn at the clock.
_FLOPS = {"cpu": 3e10, "cuda": 5e13}
_SLOWEST_FLOPS = {"cpu": 1e9, "cuda": 1e12}
_CALL = {"cpu": 1e-5, "cuda": 1e-5}
_START = {"cpu": Start(3.0, 0.5), "cuda": Start(8.0, 1.0)}
_TURN = {"cpu": 6e-3, "cuda": 1e-3}
_REFERENCE_FLOPS = {"cpu": 5e9, "cuda": 1e12}  # of float64, with its inputs
_REFERENCE_SECONDS = 3.0  # at most: later launches check some rows
_CHECK_CALLS, _WARM_UP_CALLS, _WARM_UP_SECONDS = 5, 7, 0.5  # per launch, beside its turns

# A share of the shortest start here: a smaller budget begins nothing. Half, because known starts
# may have been slow ones, and a refused run learns of none.
LEAST_START = 0.5

_ALIKE = 5  # cases whose median replaces one that was not measured

DECIDED_AFTER = Seconds(6, 10, 40)  # launches if no spread is known


@dataclass
class Experience:
    """`estimate.Known` of one device. machine: None if nothing was ever measured."""

    device: str
    machine: MachineCosts | None = None
    _like: dict[tuple[Case, str], tuple[Case, CaseCost] | None] = field(default_factory=dict)

    def level(self, case: Case, specs: Sequence[str]) -> Basis:
        """The basis of an estimate for these candidates on a case."""
        if self.machine is None or not self.machine.cases:
            return Basis.GUESS
        known = self.machine.cases.get(case.id)
        if known and set(specs) <= set(known.candidates):
            return Basis.KNOWN
        return Basis.NEAR if known or self._measured_of(case) else Basis.GUESS

    def level_of(self, work: Work) -> Basis:
        """The weakest basis over all cases of the work."""
        levels = {self.level(case, work.candidates) for case in work.cases}
        return next((one for one in reversed(Basis) if one in levels), Basis.GUESS)

    def spread(self, level: Basis) -> tuple[float, float]:
        """Factors of an estimate's range, from the accuracy of earlier estimates."""
        ratios = sorted(self.machine.ratios.get(level, [])) if self.machine else []
        if len(ratios) < _ENOUGH:
            return _RANGES[level]
        cut = (len(ratios) + 1) // 20
        return min(_NARROWEST[0], ratios[cut - 1]), max(_NARROWEST[1], ratios[-cut])

    def seconds(self, work: Work) -> Seconds:
        """Device seconds of the work, with their range."""
        return Seconds.about(total_seconds(work, self), self.spread(self.level_of(work)))

    def start(self, processes: int, candidates: Sequence[str]) -> Start:
        known = self.machine.starts if self.machine else {}
        starts = {key: value for key, value in known.items() if key.isdecimal()}
        guess, known_of = _START[self.device], 1
        found = known.get(start_key(processes, candidates)) or known.get(str(processes))
        if found:
            known_of = processes
        elif starts:
            nearest = min(starts, key=lambda text: abs(int(text) - processes))
            found, known_of = starts[nearest], int(nearest)
        first = found.first if found else guess.first
        later = found.later if found and found.later is not None else min(first, guess.later)
        # Scale from another number of processes: they start side by side, or on busy cores.
        more = later * 0.5 * (processes - known_of) / known_of
        return Start(first + more, later + more)

    def shortest_start(self, processes: int, candidates: Sequence[str]) -> float | None:
        """Seconds of the shortest start here, of workers that are not forked: of these, else of
        any; None if there was none."""
        known = self.machine.starts if self.machine else {}
        alike = known.get(start_key(processes, candidates))
        found = [alike] if alike else known.values()
        return min((one.shortest for one in found), default=None)

    def around(self, case: Case) -> Around:
        known = self.machine.cases.get(case.id) if self.machine else None
        if known is not None:
            return Around(known.every, known.first)
        if measured := self._measured_of(case):
            wanted = math.log(_work(case))
            alike = sorted(measured, key=lambda one: abs(wanted - one[0]))[:_ALIKE]
            largest = max(_work(other) for _, other, _ in alike)
            # A reference takes no time on a GPU; on a CPU it grows with the operations.
            factor = max(1.0, _work(case) / largest) if self.device == "cpu" else 1.0
            most = min((factor - 1) * largest / _SLOWEST_FLOPS[self.device], _REFERENCE_SECONDS)
            every, first = (
                median(values)
                for values in zip(*((c.every, c.first) for *_, c in alike), strict=True)
            )
            every, first = (one + min(one * (factor - 1), most) for one in (every, first))
            return Around(every, first)
        reference = min(case.flops / _REFERENCE_FLOPS[self.device], _REFERENCE_SECONDS)
        return Around(0.01 + reference, 0.05 + reference)

    def speed(self, case: Case, spec: str) -> Speed:
        known = self.machine.cases.get(case.id) if self.machine else None
        if known is not None and known.candidates:
            one = known.candidates.get(spec) or next(iter(known.candidates.values()))
            return Speed(one.call, one.fixed, one.turn, one.stretch)
        if (like := self._nearest(case, spec) or self._nearest(case, "")) is not None:
            other, cost = like
            one = cost.candidates.get(spec) or next(iter(cost.candidates.values()))
            call = self._scaled(one.call, _work(case), _work(other))
            more = call - one.call
            fixed = max(0.3 * one.fixed, one.fixed + _fixed(call) - _fixed(one.call))
            return Speed(call, fixed, max(0.3 * one.turn, one.turn + more), one.stretch)
        call = _CALL[self.device] + case.flops / _FLOPS[self.device]
        return Speed(call, _fixed(call), _TURN[self.device] + call)

    def _scaled(self, call: float, flops: float, known: float) -> float:
        """The seconds of a call with other operations. An almost empty call's do not grow, and no
        kernel is slower than the slowest rate."""
        empty = min(call, _CALL[self.device])
        grown = empty + (call - empty) * flops / known
        if flops > known:
            grown = min(grown, call + (flops - known) / _SLOWEST_FLOPS[self.device])
        return grown

    def launches(
        self, work: Work, tolerance: float, confidence: float, *, sought: bool = False
    ) -> tuple[list[Seconds], bool]:
        """Launches until each case of two builds is decided, at most those of the work, and whether
        that comes from the spread of earlier launches here. sought: as in
        `launches_until_decided`."""
        cases, most = work.cases, work.launches
        terms = IntervalTerms(simultaneous_alpha(1 - confidence, len(cases)), len(cases))
        found = [
            launches_until_decided(spread, tolerance, terms, most, sought=sought)
            for case in cases
            if (spread := self.spread_between(case, work.processes)) is not None
        ]
        if len(found) < len(cases):
            return [_capped(DECIDED_AFTER, most)] * len(cases), False
        return found, True

    def spread_between(self, case: Case, processes: int) -> float | None:
        """The spread of two builds' log-ratio between launches: the case's own or the usual one;
        None if none is known."""
        known = self.machine.cases if self.machine else {}
        own = known.get(case.id)
        if not own or not own.spread_launches:
            spreads = [one.spread for one in known.values() if one.spread_launches]
            return median(spreads) * spread_factor(processes) if spreads else None
        return own.spread * spread_factor(processes)

    def _nearest(self, case: Case, spec: str) -> tuple[Case, CaseCost] | None:
        """The known case with the most similar number of operations. spec "": of any candidate."""
        if (case, spec) not in self._like:
            measured = self._measured_of(case)
            fitting = [one for one in measured if not spec or spec in one[2].candidates]
            wanted = math.log(_work(case))
            nearest = min(
                fitting,
                key=lambda one: abs(wanted - one[0]) + 2 * (one[1].dtype != case.dtype),
                default=None,
            )
            self._like[case, spec] = nearest and nearest[1:]
        return self._like[case, spec]

    def _measured_of(self, case: Case) -> list[tuple[float, Case, CaseCost]]:
        """The entries of `_measured` that belong to the case's operation."""
        return [one for one in self._measured if one[1].operation == case.operation]

    @cached_property
    def _measured(self) -> list[tuple[float, Case, CaseCost]]:
        """log(operations), case and costs of each case with a time of any candidate."""
        found = []
        for name, cost in (self.machine.cases if self.machine else {}).items():
            with contextlib.suppress(InvalidInputError):  # from a damaged file
                case = parse_case(name)
                if cost.candidates:
                    found.append((math.log(_work(case)), case, cost))
        return found


def _work(case: Case) -> int:
    """Operations, at least one: a copy has none, and of a project's case they may be unknown."""
    return max(1, case.flops)


def experience(device: str, threads: int | None = None) -> Experience:
    """Experience with the device here, or without one, as on a cluster's login node, with the last
    one of its kind."""
    return Experience(device, store.read().find(device, name_of(device), threads))


def _fixed(call: float) -> float:
    return _CHECK_CALLS * call + min(_WARM_UP_CALLS * call, _WARM_UP_SECONDS)


def _capped(count: Seconds, most: int) -> Seconds:
    return Seconds(*(min(value, most) for value in (count.low, count.likely, count.high)))
