"""Measure two builds against each other in the same launches until each case is decided."""

from collections.abc import Callable, Collection
from pathlib import Path

from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress
from flashbench.report import report_builds
from flashbench.run_plan import RunEnd, measure
from flashbench.runfile import RunFile
from flashbench.verdict import DECIDED, Outcome

_TRIES = 2  # launches in which a case may fail before it is given up


def measure_pair(
    plan: Plan,
    path: Path,
    progress: Progress,
    resumed: RunFile | None = None,
    *,
    check: bool = False,
    enough: Collection[Outcome] = DECIDED,
) -> RunEnd:
    """Measure `plan.pair` into the run file `path`, launch by launch; cases with a verdict that is
    `enough` leave the plan.

    It may stop and resume at any time: the verdicts hold at every look. Errors as for
    `run.measure`.
    """
    assert plan.pair is not None
    alpha, tolerance = 1 - plan.pair.confidence, plan.pair.tolerance
    metric = plan.pair.metric or None
    decided = decided_cases(metric, tolerance, alpha, enough)
    return measure(plan, path, progress, resumed, decided, check=check)


def decided_cases(
    metric: str | None, tolerance: float, alpha: float, enough: Collection[Outcome] = DECIDED
) -> Callable[[RunFile], set[str]]:
    """What the scheduler asks after each launch: the ids of cases that are decided, or never will
    be."""

    def decided(run: RunFile) -> set[str]:
        if not run.launches:
            return set()
        report = report_builds(run, metric=metric, tolerance=tolerance, alpha=alpha)
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
