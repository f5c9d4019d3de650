"""The speed levels: at least a multiple of the baseline, over the family of cases."""

import math
import shlex

from flashbench.comparison import Comparison
from flashbench.gate.level import Level, LevelState
from flashbench.gate.levels import BISECT_CORRECT, CORRECT
from flashbench.outcome import Outcome
from flashbench.report import Report
from flashbench.stats.shift import launches_needed
from flashbench.verdict import MAX_PLANNED_LAUNCHES


def level_name(threshold: float) -> str:
    return f"at least {threshold:g}x"


def speed_level(report: Report, threshold: float, revision: str) -> Level:
    """Pass if the candidate has at least `threshold` times the baseline's speed (0.5 is half).

    Uses the family-wise intervals. FAILED: a case or the geometric mean is certainly below. PASSED:
    no case is, and the mean's whole interval is at or above the threshold. Otherwise undecided. For
    a case with too few launches for an interval, its estimate counts. `report` has one candidate,
    built from `revision`.
    """
    name, limit = level_name(threshold), math.log(threshold)
    unmeasured = _first(report, Outcome.NOT_MEASURED)
    if wrong := _first(report, Outcome.WRONG):
        case = wrong.partition(":")[0]
        return Level(CORRECT, LevelState.FAILED, wrong, f"{BISECT_CORRECT} --case {case}")
    measured = [(c, c.shift) for c in report.comparisons if c.shift is not None]
    if not measured or not report.overall:
        return _unmeasured(name, unmeasured or "no case was measured", revision)
    ((_, mean),) = report.overall.items()
    slowest, shift = min(measured, key=lambda pair: pair[1].value)
    said = f"geometric mean {_ratio(mean.value, mean.low, mean.high)} over {len(measured)} cases"
    below = [c for c, s in measured if s.bounded and s.high < limit]
    if below:
        return Level(
            name,
            LevelState.FAILED,
            f"{len(below)} of {len(measured)} cases below: {slowest.case.id} "
            f"{_ratio(shift.value, shift.low, shift.high)}; {said}",
            _profile(slowest, revision),
        )
    if mean.bounded and mean.high < limit:
        return Level(name, LevelState.FAILED, said, _profile(slowest, revision))
    if unmeasured:
        return _unmeasured(name, f"{unmeasured}; {said}", revision)
    unknown = [c for c, s in measured if not s.bounded and s.value < limit]
    if mean.bounded and mean.low >= limit and not unknown:
        return Level(name, LevelState.PASSED, said)
    return Level(name, LevelState.UNDECIDED, said, _more(report, limit))


def fewest_launches(confidence: float) -> int:
    """Fewest launches that bound the interval of the geometric mean: fewer decide nothing."""
    return launches_needed(1 - confidence, paired=True)


def _unmeasured(name: str, said: str, revision: str) -> Level:
    """The next step calls the kernel alone on the case that has no time."""
    case, colon, _ = said.partition(": ")
    check = f"flashbench build {shlex.quote(revision)} --for correct --case {case}"
    return Level(name, LevelState.NOT_MEASURED, said, f"see why: {check}" if colon else "")


def _more(report: Report, limit: float) -> str:
    """How many launches would decide: enough to bound the intervals and to narrow the mean's, whose
    width shrinks with their square root."""
    ((_, mean),) = report.overall.items()
    needed = [v.launches or 0 for c, v in report.judged if c.shift and not c.shift.bounded]
    if mean.bounded:
        now = max(min(c.pairing.launches) for c in report.comparisons if c.shift is not None)
        side = mean.value - mean.low if mean.value > limit else mean.high - mean.value
        away = abs(mean.value - limit)
        if side >= away * math.sqrt(MAX_PLANNED_LAUNCHES / now):
            return "practically at this threshold: no reasonable number of launches would decide"
        needed.append(math.ceil(now * (side / away) ** 2))
    return f"about {max(needed)} launches would decide: --launches {max(needed)}"


def _first(report: Report, outcome: Outcome) -> str:
    """The first case with an outcome, and its reason; "" if there is none."""
    for comparison, verdict in report.judged:
        if verdict.outcome is outcome:
            return f"{comparison.case.id}: {verdict.full_reason}"
    return ""


def _profile(comparison: Comparison, revision: str) -> str:
    command = f"flashbench profile {comparison.case.id} --candidate {shlex.quote(revision)}"
    return f"find the bottleneck before changing it: {command} --against sdpa"


def _ratio(value: float, low: float, high: float) -> str:
    return f"{math.exp(value):.3f} [{math.exp(low):.3f}, {math.exp(high):.3f}]"
