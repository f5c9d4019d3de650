"""Verdict: what one comparison proves, why, and the exit code.

The rule, on the family-wise interval of the log speed-up:
  inside +-tolerance                                     -> SAME
  beyond the tolerance                                   -> FASTER or SLOWER
  excludes 0 and what most cases share, and its centre is
  beyond the tolerance                                   -> FASTER? or SLOWER?
  anything else                                          -> UNDECIDED
The last two come with the number of launches that would decide.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from flashbench.comparison import Comparison, Estimate
from flashbench.errors import Exit
from flashbench.family_noise import variance_of_mean
from flashbench.outcome import Outcome
from flashbench.pairing import Pairing
from flashbench.stats.order import inflation
from flashbench.stats.sequential import (
    expected_half_width,
    launches_needed_anytime,
    launches_needed_tight,
    spread,
)
from flashbench.stats.shift import Shift, launches_advised, launches_needed

# More launches than this are no plan: the change practically equals the tolerance.
MAX_PLANNED_LAUNCHES = 1000
_Z_POWER = 0.8416  # normal quantile of 80 % power


_FIND = "find what sets the mode (clocks, placement, autotuning)"

DIFFERENT = frozenset(
    (Outcome.FASTER, Outcome.SLOWER, Outcome.PERHAPS_FASTER, Outcome.PERHAPS_SLOWER)
)
# More launches would not change these.
DECIDED = frozenset((Outcome.FASTER, Outcome.SLOWER, Outcome.SAME, Outcome.WRONG))


@dataclass(frozen=True, slots=True)
class Verdict:
    """outcome and reason; detectable: smallest change (0.02 is 2 %) that these launches would have
    called FASTER or SLOWER with 80 % power, None without an interval; launches: how many would
    decide, None if decided or if no number would; side: of each file, not of one; wide: it is
    open because the interval is too wide; least: with fewer launches there is no interval, and
    with these perhaps no decision."""

    outcome: Outcome
    reason: str
    detectable: float | None = None
    launches: int | None = None
    side: bool = False
    wide: bool = False
    least: bool = False

    @property
    def full_reason(self) -> str:
        """The reason, and how many launches would decide."""
        if self.launches is None:
            return self.reason
        return f"{self.reason}; {self.plan(self.launches)}"

    def plan(self, launches: int, would: str = "would decide") -> str:
        """What so many launches would do."""
        count = f"{launches} launches{' a side' * self.side}"
        return f"at least {count} are needed" if self.least else f"about {count} {would}"


def outcome_of(shift: Shift, limit: float, shared: float = 0.0) -> Outcome:
    """The rule. limit: log(1 + tolerance); shared: the shift that most cases have. The interval is
    bounded."""
    if -limit <= shift.low and shift.high <= limit:
        return Outcome.SAME
    if shift.low > limit or shift.high < -limit:
        return Outcome.FASTER if shift.value > 0 else Outcome.SLOWER
    unlike = shift.low > max(0.0, shared) or shift.high < min(0.0, shared)
    if abs(shift.value) > limit and unlike:
        return Outcome.PERHAPS_FASTER if shift.value > 0 else Outcome.PERHAPS_SLOWER
    return Outcome.UNDECIDED


def outcome_alone(comparison: Comparison, tolerance: float) -> Outcome:
    """The outcome that `judge` gives a comparison that was measured, in half the time: without a
    reason, or the launches that would decide."""
    estimate, limit = comparison.estimate, math.log1p(tolerance)
    assert estimate is not None
    one_mode = not any(estimate.modes) or _modes_agree(comparison.pairing, limit)
    if not (estimate.shift.bounded and one_mode):
        return Outcome.UNDECIDED
    return outcome_of(estimate.shift, limit, estimate.shared)


def judge(comparison: Comparison, tolerance: float) -> Verdict:
    """Apply the rule; tolerance 0.01 means that a change of 1 % does not matter."""
    failure = comparison.failure
    if failure is not None:
        if failure.status == "wrong":
            return Verdict(Outcome.WRONG, f"wrong result: {failure.reason}".rstrip(": "))
        reason = failure.reason if failure.status in ("missing", "control") else failure.status
        if failure.status not in ("missing", "control") and failure.reason:
            reason = f"{failure.status.replace('_', ' ')}: {failure.reason}"
        return Verdict(Outcome.NOT_MEASURED, reason)
    pairing, estimate = comparison.pairing, comparison.estimate
    assert estimate is not None
    shift = estimate.shift
    limit = math.log1p(tolerance)
    detectable = _detectable(pairing, estimate, limit) if shift.bounded else None
    has_modes = (shift.bounded or estimate.anytime) and any(estimate.modes)
    if has_modes and not _modes_agree(pairing, limit):
        reason = f"two modes across launches: {_speedups(pairing, estimate)}; {_FIND}"
        return Verdict(Outcome.UNDECIDED, reason, detectable)
    least = _least(pairing, estimate)
    if detectable is None:
        return _unbounded(pairing, estimate, least)
    outcome = outcome_of(shift, limit, estimate.shared)
    if outcome is Outcome.SAME:
        real = shift.low > 0 or shift.high < 0
        small = f"a real change, but below the tolerance of {100 * tolerance:.6g} %"
        reason = small if real else f"within {100 * tolerance:.6g} % either way"
    elif outcome in (Outcome.FASTER, Outcome.SLOWER):
        reason = f"the interval is beyond the tolerance of {100 * tolerance:.6g} %"
    else:
        return _open(outcome, pairing, estimate, limit, detectable, least)
    return Verdict(outcome, reason, detectable)


def exit_code(verdicts: Iterable[Verdict], allow: Collection[str] = ()) -> Exit:
    """The worst of all: a regression (SLOWER, WRONG), then not measured, then undecided, which
    SLOWER? is as well; FASTER? passes.

    allow: "undecided" and "not-measured" let these pass, but never when nothing was compared.
    """
    outcomes = {verdict.outcome for verdict in verdicts}
    if outcomes & {Outcome.SLOWER, Outcome.WRONG}:
        return Exit.REGRESSION
    if not outcomes - {Outcome.NOT_MEASURED}:
        return Exit.NOT_MEASURED
    if Outcome.NOT_MEASURED in outcomes and "not-measured" not in allow:
        return Exit.NOT_MEASURED
    if outcomes & {Outcome.UNDECIDED, Outcome.PERHAPS_SLOWER} and "undecided" not in allow:
        return Exit.UNDECIDED
    return Exit.PASS


def _least(pairing: Pairing, estimate: Estimate) -> int:
    if estimate.anytime:
        return launches_needed_anytime(estimate.terms.alpha, estimate.terms.comparisons)
    return launches_needed(estimate.terms.alpha, paired=len(pairing.sides) == 1)


def _unbounded(pairing: Pairing, estimate: Estimate, least: int) -> Verdict:
    now = min(pairing.launches)
    sides = len(pairing.sides) > 1
    alpha = estimate.terms.alpha
    if now < least:
        have = " + ".join(str(n) for n in pairing.launches)
        reason = f"{have} {'launch is' if have == '1' else 'launches are'} too few for any verdict"
        if estimate.anytime:
            return Verdict(Outcome.UNDECIDED, reason, launches=least, least=True)
        advised = launches_advised(alpha, paired=not sides)
        return Verdict(Outcome.UNDECIDED, reason, launches=advised, side=sides)
    enough = launches_needed_tight(alpha)
    if estimate.anytime and now < enough:
        reason = f"{now} launches this similar may all be in one mode, or on one clock tick"
        if estimate.terms.modes:
            reason = f"some cases seem to have two modes, and {now} launches may all be in one"
        return Verdict(Outcome.UNDECIDED, reason, launches=enough)
    correlation = estimate.terms.correlation
    return Verdict(
        Outcome.UNDECIDED,
        f"each launch is so similar to the one before (autocorrelation {correlation:.2f}) "
        f"that {now} do not show their spread; let the machine settle",
    )


def _open(
    outcome: Outcome,
    pairing: Pairing,
    estimate: Estimate,
    limit: float,
    detectable: float,
    least: int,
) -> Verdict:
    shift = estimate.shift
    # The interval must come to lie on the side of the tolerance where the estimate is.
    target = abs(abs(shift.value) - limit)
    half_width = max(shift.high - shift.value, shift.value - shift.low)
    now = min(pairing.launches)
    if target <= 0:
        needed = math.inf
    elif estimate.anytime:
        needed = _anytime_launches(pairing, estimate, target)
    else:
        needed = now * (half_width / target) ** 2
    if outcome is Outcome.PERHAPS_FASTER:
        reason = "faster, but perhaps by less than the tolerance"
    elif outcome is Outcome.PERHAPS_SLOWER:
        reason = "slower, but perhaps by less than the tolerance"
    elif abs(shift.value) > limit and (shift.low > 0 or shift.high < 0):
        reason = f"the interval includes the {math.expm1(estimate.shared):+.2%} of most cases"
    elif abs(shift.value) > limit:
        reason = "the interval includes no change"
    elif shift.low > 0 or shift.high < 0:
        reason = "a real change, but the interval reaches beyond the tolerance"
    else:
        reason = "the interval reaches beyond the tolerance"
    if pairing.time_modes:
        reason += f"; times have two modes across launches: {_FIND}"
        return Verdict(outcome, reason, detectable)
    if needed > MAX_PLANNED_LAUNCHES:
        reason += f"; more than {MAX_PLANNED_LAUNCHES} launches would be needed"
        return Verdict(outcome, reason, detectable, wide=True)
    launches = max(least, now + 1, math.ceil(needed))
    return Verdict(outcome, reason, detectable, launches, len(pairing.sides) > 1, wide=True)


def _anytime_launches(pairing: Pairing, estimate: Estimate, half_width: float) -> float:
    """Launches until the interval should be that narrow; infinite if too many to plan.

    Estimated from the spread so far. An anytime interval narrows more slowly than the square root
    of the launches.
    """
    deviation = spread(pairing.sides[0])

    def narrow(launches: int) -> bool:
        width = expected_half_width(launches, estimate.terms)
        return deviation * width <= half_width

    enough = bisect_left(range(MAX_PLANNED_LAUNCHES + 1), True, key=narrow)
    return enough if enough <= MAX_PLANNED_LAUNCHES else math.inf


def _detectable(pairing: Pairing, estimate: Estimate, limit: float) -> float:
    """Smallest change that this many launches call FASTER or SLOWER with 80 % power.

    The centre must clear the tolerance by the interval's half width, and misses its true value by
    one standard error times the 80 % quantile. So does the half width: those of two runs differ by
    about sqrt(2 / degrees of freedom) of it (experiments/detectable.py).
    """
    error = math.sqrt(sum(variance_of_mean(side) for side in pairing.sides))
    error *= inflation(estimate.terms.correlation)
    half_width = (estimate.shift.high - estimate.shift.low) / 2
    freedom = sum(len(side) - 1 for side in pairing.sides)
    missed = _Z_POWER * math.hypot(error, half_width * math.sqrt(2 / freedom))
    return math.expm1(min(limit + half_width + missed, 700.0))


def _speedups(pairing: Pairing, estimate: Estimate) -> str:
    """Those of each side that has modes. Between two files they are over the control in the file,
    not the ratio that the table compares."""
    names = ["speed-up"]
    if len(pairing.sides) > 1:
        names = [f"{file}'s speed-up over its control" for file in "AB"]
    return ", ".join(
        f"{name} {math.exp(modes.low):.3f} in some, {math.exp(modes.high):.3f} in others"
        for name, modes in zip(names, estimate.modes, strict=True)
        if modes
    )


def _modes_agree(pairing: Pairing, limit: float) -> bool:
    """Whether every launch of either mode would lead to the same verdict."""
    if len(pairing.sides) == 1:
        low, high = pairing.sides[0].min(), pairing.sides[0].max()
    else:
        old, new = pairing.sides
        low, high = new.min() - old.max(), new.max() - old.min()
    return bool(low > limit or high < -limit or -limit <= low <= high <= limit)
