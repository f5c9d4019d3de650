"""Measure two builds against each other in the same launches until each case is decided."""

import math
from collections.abc import Callable, Collection
from pathlib import Path

from flashbench.aa import TOLERANCES
from flashbench.cost.decision import launches_until_decided
from flashbench.cost.spent import seconds_of_more
from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress
from flashbench.outcome import Outcome
from flashbench.report import Report, report_builds
from flashbench.run_plan import RunEnd, measure
from flashbench.runfile import RunFile
from flashbench.stats.sequential import spread
from flashbench.verdict import DECIDED, MAX_PLANNED_LAUNCHES

_TRIES = 2  # launches in which a case may fail before it is given up
_SHOW_SPREAD = 6  # launches whose spread tells how many are needed, within a factor of two or so


def measure_pair(
    plan: Plan,
    path: Path,
    progress: Progress,
    resumed: RunFile | None = None,
    *,
    check: bool = False,
    enough: Collection[Outcome] = DECIDED,
    sought: bool = False,
) -> RunEnd:
    """Measure `plan.pair` into the run file `path`, launch by launch; cases with a verdict that is
    `enough` leave the plan.

    It may stop and resume at any time: the verdicts hold at every look. After the first launches of
    a new file, two if the budget pays for few, it notes if the plan's launches or budget are too
    few to call equal builds SAME, unless a change is `sought`. Errors as for `run_plan.measure`.
    """
    assert plan.pair is not None
    alpha, tolerance = 1 - plan.pair.confidence, plan.pair.tolerance

    said: list[str] = []

    def look(run: RunFile, report: Report) -> None:
        if sought or resumed is not None or said or not tells_spread(run, plan.budget_seconds):
            return
        if line := out_of_reach(run, report, plan.launches, plan.budget_seconds):
            said.append(line)
            progress.note(line)

    decided = decided_cases(plan.pair.metric or None, tolerance, alpha, enough, look)
    return measure(plan, path, progress, resumed, decided, check=check)


def decided_cases(
    metric: str | None,
    tolerance: float,
    alpha: float,
    enough: Collection[Outcome] = DECIDED,
    look: Callable[[RunFile, Report], None] = lambda run, report: None,
) -> Callable[[RunFile], set[str]]:
    """What the scheduler asks after each launch: the ids of cases that are decided, or never will
    be. look: sees each report."""

    def decided(run: RunFile) -> set[str]:
        if not run.launches:
            return set()
        report = report_builds(run, metric=metric, tolerance=tolerance, alpha=alpha)
        look(run, report)
        found = set()
        for comparison, verdict in report.judged:
            # Nor retry failing cases forever.
            failure = comparison.failure or comparison.pairing.partial
            hopeless = failure is not None and (
                failure.status in ("unsupported", "control") or failure.launches >= _TRIES
            )
            if verdict.outcome in enough or hopeless:
                found.add(comparison.case.id)
        return found

    return decided


def tells_spread(run: RunFile, budget: float | None) -> bool:
    """Whether now is the time to look at the spread of the launches: after six of them, or from two
    on if the budget (device seconds) pays for fewer than six."""
    now, every = len(run.launches), [case.id for case in run.cases]
    if budget is None or not 1 < now < _SHOW_SPREAD:
        return now == _SHOW_SPREAD
    return _paid_for(run, budget, seconds_of_more(run, every, now + 1)) < _SHOW_SPREAD


def _paid_for(run: RunFile, budget: float, each: float) -> int:
    """Launches that the budget pays for in all. each: seconds of one more."""
    more = int(max(0.0, budget - run.device_seconds) / each) if each else MAX_PLANNED_LAUNCHES
    return len(run.launches) + more


def out_of_reach(run: RunFile, report: Report, most: int, budget: float | None) -> str | None:
    """A line if `most` launches and the budget (device seconds, None: no limit) are too few, by the
    spread of the run's launches, to call cases SAME that show no change so far, even if there is
    none; it names the tolerance that can be reached."""
    limit = math.log1p(report.tolerance)
    spreads = {}
    for comparison, verdict in report.judged:
        found = comparison.estimate
        if verdict.outcome is not Outcome.UNDECIDED or found is None:
            continue
        deviation = spread(comparison.pairing.sides[0])
        if abs(found.shift.value) <= limit + 2 * deviation:
            spreads[comparison.case.id] = deviation, found.terms
    if not spreads:
        return None

    def needed(tolerance: float) -> int:
        counts = (
            launches_until_decided(deviation, tolerance, terms, MAX_PLANNED_LAUNCHES).likely
            for deviation, terms in spreads.values()
        )
        return math.ceil(max(counts))

    now, allows = len(run.launches), "--launches"
    each = seconds_of_more(run, spreads, now + 1)
    if budget is not None and (paid := _paid_for(run, budget, each)) < most:
        most, allows = paid, "--budget"
    wanted = needed(report.tolerance)
    if wanted <= most:
        return None
    count = f"about {wanted}" if wanted < MAX_PLANNED_LAUNCHES else f"{wanted} or more"
    reached = (one for one in TOLERANCES if one > report.tolerance and needed(one) <= most)
    larger = next(reached, None)
    line = (
        f"by the spread of these {now} launches, an unchanged build needs {count} of them "
        f"({wanted * each:.0f} s) to be SAME at {100 * report.tolerance:g} %, and {allows} allows "
        f"about {most}"
    )
    if larger is None:
        return f"{line}, which reach no tolerance up to {100 * TOLERANCES[-1]:g} %"
    return (
        f"{line}, which reach {100 * larger:g} %: --tolerance {100 * larger:g}% decides sooner, "
        "and `flashbench aa --save` lets compare choose"
    )
