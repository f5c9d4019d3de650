"""A build against itself: this machine's false-alarm rate and smallest detectable change.

Everything here is a function of the launches' log-ratios in one run file whose pair is the same
build twice. They are cut into comparisons of equal length, in the order of measurement, and each is
judged by the code that `compare` runs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flashbench import machine
from flashbench.arrays import BoolArray, FloatArray
from flashbench.case import Case
from flashbench.comparison import decide_families
from flashbench.launches import Failure, LaunchData
from flashbench.outcome import Outcome
from flashbench.pairing import Pairing, of_builds
from flashbench.stats.family import simultaneous_alpha
from flashbench.stats.proportion import Rate
from flashbench.stats.sequential import IntervalTerms, exceeds, launches_needed_anytime
from flashbench.verdict import DECIDED, DIFFERENT, outcome_alone

MOST_LAUNCHES = 40  # for a planned comparison
POWERS = (0.8, 0.95)
TOLERANCES = (0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)  # that `compare` may choose
_DRAWS = 200  # resamples of a comparison's launches, for the smallest detectable change
_STEPS = 6  # changes tried per doubling
_EVERY = 5  # launches after which the attainable tolerance is computed
_SURE = 0.05  # how often a machine that keeps the promised rate is reported to miss it


@dataclass(frozen=True, slots=True)
class CaseNoise:
    """One case of a build compared with itself.

    alarms: comparisons that were called FASTER or SLOWER, perhaps with "?", at any look. deviation:
    standard deviation of one launch's log-ratio; None with fewer than two. detectable: by power,
    (MOST_LAUNCHES,): the smallest change (0.02 is 2 %) that is FASTER or SLOWER after that
    many launches, as are all larger ones; infinite if there is none. ratios: (launches,) the
    log-ratios.
    """

    case: Case
    alarms: Rate
    undecided: int
    deviation: float | None
    detectable: dict[float, FloatArray]
    ratios: FloatArray

    def launches_for(self, change: float, power: float) -> int | None:
        """Fewest launches that find a change of this size; None: more than MOST_LAUNCHES."""
        enough = np.flatnonzero(self.detectable[power] <= change)
        return int(enough[0]) + 1 if len(enough) else None


@dataclass(frozen=True, slots=True)
class SelfComparison:
    """cases: one entry per case. family: comparisons in which any case was called different at any
    look. fixed: the same, looking only after the last launch. launches: per comparison."""

    data: LaunchData
    cases: list[CaseNoise]
    family: Rate
    fixed: Rate
    launches: int
    tolerance: float
    alpha: float

    @property
    def alarms(self) -> Rate:
        """False alarms over all cases and comparisons."""
        return Rate(
            sum(noise.alarms.count for noise in self.cases),
            sum(noise.alarms.trials for noise in self.cases),
        )

    @property
    def too_many(self) -> bool:
        """Whether more families had a false alarm than chance explains at level alpha."""
        return chance_of_as_many(self.family, self.alpha) <= _SURE


def chance_of_as_many(rate: Rate, probability: float) -> float:
    """Exact one-sided binomial p-value of `count` or more, each with this probability."""
    from scipy.special import bdtrc

    found = bdtrc(rate.count - 1, rate.trials, probability)
    return round(float(found), 12)  # 1 - 0.95 is a little more than 0.05


def compare_with_itself(
    data: LaunchData, launches: int, tolerance: float, alpha: float
) -> SelfComparison:
    """Judge the launches of `data`, `launches` per comparison; a remainder is not used."""
    pairings = of_builds(data, tolerance)
    groups = list(_groups(pairings, launches, len(data.run.launches)))
    looked = _at_any_look(groups, launches, tolerance, alpha)
    once = [
        {index: _Looked(outcome, outcome in DIFFERENT) for index, outcome in outcomes.items()}
        for outcomes in _outcomes(groups, tolerance, alpha, anytime=False)
    ]
    cases = []
    for index, pairing in enumerate(pairings):
        if pairing.failure is not None:
            continue
        ratios = pairing.sides[0]
        outcomes = [comparison[index] for comparison in looked if index in comparison]
        cases.append(
            CaseNoise(
                data.run.cases[data.case_index[pairing.case.id]],
                Rate(sum(outcome.alarm for outcome in outcomes), len(outcomes)),
                sum(outcome.last not in DECIDED for outcome in outcomes),
                float(np.std(ratios, ddof=1)) if len(ratios) > 1 else None,
                detectable_changes(ratios, len(pairings), tolerance, alpha),
                ratios,
            )
        )
    return SelfComparison(
        data, cases, _families(looked), _families(once), launches, tolerance, alpha
    )


def detectable_changes(
    ratios: FloatArray, family: int, tolerance: float, alpha: float
) -> dict[float, FloatArray]:
    """By power, (MOST_LAUNCHES,): the smallest change that a comparison would have found by then,
    along with all larger ones.

    ratios: (launches,) log-ratios of a build and itself. They are drawn with replacement about
    their median, each change of a grid is added, and the rule is applied after each launch. All
    sizes are tried because a larger change is not always found sooner: launches far from "no
    change" and close together wait for the signs to agree (`anytime_shift`).
    """
    if len(ratios) < 2:
        return {power: np.full(MOST_LAUNCHES, math.inf) for power in POWERS}
    draws = unchanged(ratios)
    limit = math.log1p(tolerance)
    terms = IntervalTerms(simultaneous_alpha(alpha, family), family)
    changes = _changes(tolerance)
    shifts = np.log1p(changes)
    found = np.zeros((len(changes), _DRAWS), dtype=bool)
    share = np.zeros((MOST_LAUNCHES, len(changes)))
    for n in range(terms.least, MOST_LAUNCHES + 1):
        change, draw = np.nonzero(~found)
        rows = draws[draw, :n] + shifts[change, None]
        found[change, draw] = exceeds(rows, limit, terms)
        share[n - 1] = found.mean(axis=1)
    return {power: _smallest(share >= power, changes) for power in POWERS}


def attainable_tolerances(ratios: FloatArray, family: int, alpha: float) -> FloatArray:
    """(MOST_LAUNCHES,): the smallest of TOLERANCES at which an unchanged case would be SAME
    after so many launches in 80 % of comparisons; infinite if none is large enough. ratios, family
    as for `detectable_changes`."""
    attained = np.full(MOST_LAUNCHES, math.inf)
    if len(ratios) < 2:
        return attained
    draws = unchanged(ratios)
    terms = IntervalTerms(simultaneous_alpha(alpha, family), family)

    def is_same(rows: FloatArray, limit: float) -> BoolArray:
        return exceeds(rows, -limit, terms) & exceeds(-rows, -limit, terms)

    left = list(TOLERANCES)  # not attained yet
    for n in range(_EVERY, MOST_LAUNCHES + 1, _EVERY):
        while left and is_same(draws[:, :n], math.log1p(left[-1])).mean() >= POWERS[0]:
            attained[n - 1 :] = left.pop()
    return attained


def unchanged(ratios: FloatArray) -> FloatArray:
    """(_DRAWS, MOST_LAUNCHES): launches of comparisons without a change, drawn with replacement."""
    rng = np.random.default_rng(0)  # the same file gives the same table
    return rng.choice(ratios - np.median(ratios), (_DRAWS, MOST_LAUNCHES))


def _changes(tolerance: float) -> FloatArray:
    """From just above the tolerance to a hundred times it, and to at least 100 %."""
    steps = math.ceil(_STEPS * math.log2(max(100.0, 1 / tolerance)))
    doublings = np.concatenate(([0.1], np.arange(1, steps + 1))) / _STEPS
    return np.asarray(tolerance * 2.0**doublings)


def _smallest(enough: BoolArray, changes: FloatArray) -> FloatArray:
    """enough: (launches, changes). Returns (launches,): the smallest change from which all are
    enough."""
    onwards = np.logical_and.accumulate(enough[:, ::-1], axis=1).sum(axis=1)
    smallest: FloatArray = np.append(changes, math.inf)[len(changes) - onwards]
    return smallest


@dataclass(frozen=True, slots=True)
class _Looked:
    """A case's verdict at the last look, and whether any look called it different."""

    last: Outcome
    alarm: bool


def _families(comparisons: Sequence[dict[int, _Looked]]) -> Rate:
    alarmed = [any(one.alarm for one in found.values()) for found in comparisons]
    return Rate(sum(alarmed), len(alarmed))


def _groups(whole: Sequence[Pairing], launches: int, total: int) -> Iterator[list[Pairing]]:
    """Every case's launches, one comparison at a time, numbered from 0 in each."""
    for start in range(0, total - launches + 1, launches):
        yield [_cut(pairing, start, start + launches) for pairing in whole]


def _cut(pairing: Pairing, start: int, stop: int) -> Pairing:
    """The launches in [start, stop); a failure if the case has none."""
    if pairing.failure is not None:
        return pairing
    (numbers,), (side,) = pairing.numbers, pairing.sides
    inside = (numbers >= start) & (numbers < stop)
    if not inside.any():
        failure = Failure("missing", "not measured in these launches")
        return replace(pairing, sides=(), numbers=(), failure=failure)
    return replace(pairing, sides=(side[inside],), numbers=(numbers[inside] - start,))


def _at_any_look(
    groups: Sequence[list[Pairing]], launches: int, tolerance: float, alpha: float
) -> list[dict[int, _Looked]]:
    """The outcome of each measured case, by its index, for each group. Like `compare`, looks after
    each launch and drops a case once it is decided."""
    kept = [list(group) for group in groups]
    undecided = _Looked(Outcome.UNDECIDED, alarm=False)
    found = [{i: undecided for i, p in enumerate(g) if p.failure is None} for g in groups]
    open_cases = [set(cases) for cases in found]
    # Before that no interval is bounded, so nothing is decided.
    family = len(groups[0]) if groups else 1
    first = launches_needed_anytime(simultaneous_alpha(alpha, family), family)
    for look in range(first, launches + 1):
        left = [place for place, cases in enumerate(open_cases) if cases]
        cuts = [[_cut(pairing, 0, look) for pairing in kept[place]] for place in left]
        outcomes = _outcomes(cuts, tolerance, alpha, anytime=True)
        for place, cut, of_group in zip(left, cuts, outcomes, strict=True):
            for index in open_cases[place] & of_group.keys():
                outcome = of_group[index]
                alarm = found[place][index].alarm or outcome in DIFFERENT
                found[place][index] = _Looked(outcome, alarm)
                if outcome in DECIDED:
                    open_cases[place].remove(index)
                    kept[place][index] = cut[index]
    return found


def _outcomes(
    groups: Sequence[list[Pairing]], tolerance: float, alpha: float, *, anytime: bool
) -> list[dict[int, Outcome]]:
    """The verdict of each case that has launches, by index, for each group."""
    return [
        {
            index: outcome_alone(comparison, tolerance)
            for index, comparison in enumerate(judged)
            if comparison.failure is None
        }
        for judged in decide_families(groups, alpha, tolerance, 1, anytime=anytime)
    ]


def noise_of(found: SelfComparison) -> list[machine.Noise]:
    """For the machine's profile: an entry per device, with what the table shows for each case."""
    entries, run = [], found.data.run
    for device in sorted({noise.case.device for noise in found.cases}):
        of_device = [noise for noise in found.cases if noise.case.device == device]
        name, threads = machine.identify(run.environment, device)
        curves = np.stack([noise.detectable[0.8] for noise in of_device])
        median = np.quantile(curves, 0.5, axis=0, method="higher")
        attained = [attainable_tolerances(n.ratios, len(run.cases), found.alpha) for n in of_device]
        entries.append(
            machine.Noise(
                device=device,
                name=name,
                threads=threads,
                metric=found.data.metrics[0],
                measured=run.created,
                cases=len(of_device),
                alarms=sum(noise.alarms.count for noise in of_device),
                compared=sum(noise.alarms.trials for noise in of_device),
                detectable=_finite(median.tolist()),
                detectable_worst=_finite(curves.max(axis=0).tolist()),
                attainable=_finite(np.max(attained, axis=0).tolist()),
            )
        )
    return entries


def _finite(changes: list[float]) -> list[float | None]:
    return [change if math.isfinite(change) else None for change in changes]
