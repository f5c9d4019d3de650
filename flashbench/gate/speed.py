"""The levels of speed: at least so much of the baseline, over the family of cases."""

import math

from flashbench.comparison import Comparison
from flashbench.gate.level import Level, State
from flashbench.gate.levels import BISECT_CORRECT, CORRECT
from flashbench.report import Report
from flashbench.verdict import Outcome


def speed_level(report: Report, threshold: float) -> Level:
    """Whether the candidate has at least `threshold` times the baseline's speed (0.5 is half).

    Judged on the family-wise intervals: it fails where one case, or the geometric mean, is below
    beyond doubt; it passes where no case is and the mean is not below beyond doubt; else it is
    undecided. The report is of one candidate.
    """
    name, limit = f"at least {threshold:g}x", math.log(threshold)
    unmeasured = _first(report, Outcome.NOT_MEASURED)
    if wrong := _first(report, Outcome.WRONG):
        return Level(CORRECT, State.FAILED, wrong, BISECT_CORRECT)
    measured = [(c, c.shift) for c in report.comparisons if c.shift is not None]
    if not measured or not report.overall:
        return Level(name, State.NOT_MEASURED, unmeasured or "no case was measured")
    ((_, mean),) = report.overall.items()
    slowest, shift = min(measured, key=lambda pair: pair[1].value)
    said = f"geometric mean {_ratio(mean.value, mean.low, mean.high)} over {len(measured)} cases"
    below = [c for c, s in measured if s.bounded and s.high < limit]
    if below:
        return Level(
            name,
            State.FAILED,
            f"{len(below)} of {len(measured)} cases below: {slowest.case.id} "
            f"{_ratio(shift.value, shift.low, shift.high)}; {said}",
            _profile(slowest),
        )
    if mean.bounded and mean.high < limit:
        return Level(name, State.FAILED, said, _profile(slowest))
    if unmeasured:
        return Level(name, State.NOT_MEASURED, f"{unmeasured}; {said}")
    if mean.bounded and mean.low >= limit and all(s.bounded for _, s in measured):
        return Level(name, State.PASSED, said)
    return Level(name, State.UNDECIDED, said, "more launches: --launches")


def _first(report: Report, outcome: Outcome) -> str:
    """The first case with an outcome, and its reason; "" where there is none."""
    for comparison, verdict in zip(report.comparisons, report.verdicts, strict=True):
        if verdict.outcome is outcome:
            return f"{comparison.case.id}: {verdict.reason}"
    return ""


def _profile(comparison: Comparison) -> str:
    tool = "ncu" if comparison.case.id.endswith("-cuda") else "perf"
    return f"profile {comparison.case.id} with {tool}: find what bounds it before changing it"


def _ratio(value: float, low: float, high: float) -> str:
    return f"{math.exp(value):.3f} [{math.exp(low):.3f}, {math.exp(high):.3f}]"
