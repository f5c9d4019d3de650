"""Verdicts on a suite's comparison, by the rule of two revisions: intervals hold at every look."""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from statistics import fmean, median

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.comparison import Comparison, decide_family, geometric_mean
from flashbench.errors import NotMeasuredError
from flashbench.launches import Failure
from flashbench.other_tools.benchmarks import (
    SECONDS,
    BenchmarkSet,
    BenchmarkTimes,
    Launches,
    impossible,
)
from flashbench.other_tools.compare import Match, Named
from flashbench.other_tools.judge import OtherToolsReport
from flashbench.pairing import Pairing
from flashbench.report import Caveat, Report, launch_order
from flashbench.suites.suite_file import SuiteCase, SuiteResult, SuiteRun, SuiteSide
from flashbench.verdict import DECIDED, judge

_TRIES = 2  # launches in which a case may fail before it is given up
_HOPELESS = ("skipped", "missing")
_NAMED = 3  # of the cases that are skipped


def report_suite(
    run: SuiteRun, tolerance: float | None = None, alpha: float | None = None
) -> OtherToolsReport:
    """Judge B against A. tolerance, alpha: those that the cases were decided by, unless given."""
    limit = run.tolerance if tolerance is None else tolerance
    level = 1 - run.confidence if alpha is None else alpha
    results = _by_case(run)
    cases = _judged(run, results)
    if not cases:
        raise NotMeasuredError(f"both revisions skip all benchmarks: {_skipped(run, results)}")
    comparisons = _compared(run, cases, results, limit, level)
    matches = [
        Match(case.name, *(_times(case, results[case.name], side) for side in "ab"))
        for case in cases
    ]
    timed = [one for one, case in zip(comparisons, cases, strict=True) if case.unit == SECONDS]
    mean = geometric_mean(timed, level)
    verdicts = [judge(comparison, limit) for comparison in comparisons]
    report = Report(
        (),
        comparisons,
        verdicts,
        {"B": mean} if mean else {},
        limit,
        level,
        caveats=[*_caveats(run, results), *launch_order(comparisons, verdicts, limit)],
    )
    return OtherToolsReport(report, matches, (_set(run, run.a, matches), _set(run, run.b, matches)))


def open_cases(run: SuiteRun) -> list[SuiteCase]:
    """The cases that are neither decided nor hopeless, and all that were never measured."""
    results = _by_case(run)
    cases = _judged(run, results)
    comparisons = _compared(run, cases, results, run.tolerance, 1 - run.confidence)
    return [
        case
        for case, comparison in zip(cases, comparisons, strict=True)
        if not results[case.name]
        or (
            judge(comparison, run.tolerance).outcome not in DECIDED
            and not _is_hopeless(comparison.failure or comparison.pairing.partial)
        )
    ]


_Results = dict[str, dict[int, SuiteResult]]


def _by_case(run: SuiteRun) -> _Results:
    """Results by case and launch."""
    found: _Results = {case.name: {} for case in run.cases}
    for launch in run.launches:
        for result in launch.results:
            found.get(result.case, {})[launch.index] = result
    return found


def _judged(run: SuiteRun, results: _Results) -> list[SuiteCase]:
    """All cases but those that the suite skips in both revisions: these need no verdict."""
    return [case for case in run.cases if not _is_skipped(results[case.name])]


def _is_skipped(results: dict[int, SuiteResult]) -> bool:
    return bool(results) and all(
        one.status == "skipped" and not one.side for one in results.values()
    )


def _compared(
    run: SuiteRun, cases: list[SuiteCase], results: _Results, limit: float, level: float
) -> list[Comparison]:
    pairings = [_pairing(case, results[case.name]) for case in cases]
    return decide_family(pairings, level, limit, 1, anytime=True)


def _is_hopeless(failure: Failure | None) -> bool:
    return failure is not None and (failure.status in _HOPELESS or failure.launches >= _TRIES)


def _pairing(case: SuiteCase, results: dict[int, SuiteResult]) -> Pairing:
    blank = Pairing(Named(case.name), "B", "A", "")
    good = {index: one for index, one in results.items() if one.status == "ok"}
    ratios = {index: _ratio(case.unit, one) for index, one in good.items()}
    if any(ratio is None for ratio in ratios.values()):
        why = "a ratio needs numbers above 0 on both sides"
        return replace(blank, failure=Failure("missing", why))
    bad = [one for one in results.values() if one.status != "ok"]
    failure = None
    if bad:
        where = f"in {bad[0].side}: " if bad[0].side else ""
        failure = Failure(bad[0].status, f"{where}{bad[0].reason}", len(bad))
    if not good:
        never = Failure("missing", "never measured: the comparison was stopped before its turn")
        return replace(blank, failure=failure or never)
    sides = (np.array([ratios[index] for index in sorted(good)], dtype=float),)
    numbers = (np.array(sorted(good), dtype=np.intp),)
    return replace(blank, sides=sides, numbers=numbers, partial=failure)


def _ratio(unit: str, result: SuiteResult) -> float | None:
    """log(A / B) over the passes that ran side by side; None if there is no ratio."""
    both = list(zip(result.a, result.b, strict=False))
    if not both or any(not one or not other for one, other in both):
        return None
    medians = [(median(one), median(other)) for one, other in both]
    if unit != SECONDS and all(a == b for a, b in medians):
        return 0.0  # also of zeros
    if any(impossible(unit, value) for pair in medians for value in pair):
        return None
    return fmean(log(a) - log(b) for a, b in medians)


def _times(case: SuiteCase, results: dict[int, SuiteResult], side: str) -> BenchmarkTimes:
    samples: dict[int, FloatArray] = {}
    for index, result in sorted(results.items()):
        taken = [value for one in getattr(result, side) for value in one]
        if result.status == "ok" and taken:
            samples[index] = np.array(taken)
    times = Launches(
        np.array(list(samples), dtype=np.intp),
        np.array([median(values.tolist()) for values in samples.values()]),
    )
    return BenchmarkTimes(case.name, case.unit, times, tuple(samples.values()))


def _set(run: SuiteRun, side: SuiteSide, matches: Sequence[Match]) -> BenchmarkSet:
    found = [match.a if side is run.a else match.b for match in matches]
    return BenchmarkSet(
        side.revision,
        run.tool,
        tuple(one for one in found if one is not None),
        launches=len(run.launches),
        machine=run.hostname,
        cpu=run.cpu,
        commit=side.commit,
        dirty=side.dirty,
    )


def _skipped(run: SuiteRun, results: _Results) -> str:
    """How many cases both revisions skip, and which; "" for none."""
    names = [case.name for case in run.cases if _is_skipped(results[case.name])]
    more = ", ..." if len(names) > _NAMED else ""
    return f"{len(names)}: {', '.join(names[:_NAMED])}{more}" if names else ""


def _caveats(run: SuiteRun, results: _Results) -> list[Caveat]:
    found = [Caveat("suite", note) for note in run.notes]
    if skipped := _skipped(run, results):
        found.append(Caveat("suite", f"skipped by the suite in both revisions, {skipped}"))
    units = sorted({case.unit for case in run.cases} - {SECONDS})
    if units:
        message = f"not all are times ({', '.join(units)}): lower is taken as better"
        found.append(Caveat("unit", message))
    return found
