"""Judge other tools' files: `report_other_tools` for `compare`, `judge_alone` for `show`."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from flashbench.comparison import Comparison, geometric_mean
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.other_tools.benchmarks import NO_SAMPLES, NOT_STATED, SECONDS, BenchmarkSet
from flashbench.other_tools.compare import Match, beside, compare, matched, with_machine
from flashbench.other_tools.detect import is_other_tools
from flashbench.other_tools.read import read
from flashbench.outcome import Outcome
from flashbench.report import Caveat, Report, launch_order
from flashbench.stats.shift import Shift
from flashbench.verdict import Verdict, judge


@dataclass(frozen=True, slots=True)
class OtherToolsReport:
    """report: comparisons and verdicts, without run files. matches: one per comparison. sets: A and
    B, or the one set whose candidates are compared with its SDPA."""

    report: Report
    matches: list[Match]
    sets: tuple[BenchmarkSet, ...]


def report_other_tools(
    a: Path,
    b: Path | None,
    *,
    metric: str | None,
    against: str,
    tolerance: float,
    alpha: float,
    allow: Collection[str] = (),
) -> OtherToolsReport | None:
    """Judge B against A, or without B the candidates of A against its SDPA.

    None if neither is another tool's file or a folder. Raises InvalidInputError for damaged files,
    different machines or nothing in common; NotMeasuredError if A alone has no SDPA.
    """
    if not (is_other_tools(a) or (b is not None and is_other_tools(b))):
        return None
    if against != "sdpa":
        raise InvalidInputError("--against best is for one run file of flashbench")
    old = read(a, metric)
    sets: tuple[BenchmarkSet, ...] = (old,) if b is None else (old, read(b, metric))
    _check_metric(sets, metric)
    caveats = _machines(sets[0], sets[-1], allow)
    matches = beside(old) if b is None else matched(sets[0], sets[1])
    if not matches:
        raise NotMeasuredError(
            f"{a}: nothing to compare: it has no baseline beside a candidate; name a second file, "
            "or use `flashbench show`"
        )
    return _judged(sets, matches, caveats, tolerance, alpha)


def judge_alone(one: BenchmarkSet, *, tolerance: float, alpha: float) -> OtherToolsReport | None:
    """Judge the candidates of a set against its SDPA; None if no candidate has SDPA beside it."""
    matches = beside(one)
    return _judged((one,), matches, [], tolerance, alpha) if matches else None


def _judged(
    sets: tuple[BenchmarkSet, ...],
    matches: list[Match],
    caveats: list[Caveat],
    tolerance: float,
    alpha: float,
) -> OtherToolsReport:
    comparisons = compare(matches, alpha, tolerance, paired=len(sets) == 1)
    if len(sets) > 1:
        comparisons = with_machine(comparisons, matches, *sets)
    verdicts = [
        _verdict(comparison, match, tolerance)
        for comparison, match in zip(comparisons, matches, strict=True)
    ]
    caveats = caveats + _caveats(sets, matches) + launch_order(comparisons, verdicts, tolerance)
    report = Report(
        (), comparisons, verdicts, _overall(comparisons, matches, alpha), tolerance, alpha
    )
    return OtherToolsReport(replace(report, caveats=caveats), matches, sets)


def _verdict(comparison: Comparison, match: Match, tolerance: float) -> Verdict:
    """The verdict; with too few launches, its reason names what the files lack."""
    verdict = judge(comparison, tolerance)
    too_few = comparison.shift is not None and not comparison.shift.bounded
    if verdict.outcome is not Outcome.UNDECIDED or not too_few:
        return verdict
    lacks = sorted({*match.a.lacks, *(match.b.lacks if match.b else ())})
    return replace(verdict, reason="; ".join([*lacks, verdict.reason]))


def _overall(comparisons: list[Comparison], matches: list[Match], alpha: float) -> dict[str, Shift]:
    """The geometric mean over times only: a mean of seconds and bytes would mean nothing."""
    timed = [
        comparison
        for comparison, match in zip(comparisons, matches, strict=True)
        if match.a.unit == SECONDS
    ]
    overall = {}
    for name in dict.fromkeys(c.candidate for c in timed):
        mean = geometric_mean([c for c in timed if c.candidate == name], alpha)
        if mean is not None:
            overall[name] = mean
    return overall


def _check_metric(sets: tuple[BenchmarkSet, ...], metric: str | None) -> None:
    for one in sets:
        known = {series.metric for series in one.benchmarks} - {NOT_STATED}
        if metric and known and metric not in known:
            raise InvalidInputError(
                f"{one.source}: no {metric} times; it has {', '.join(sorted(known))}"
            )


def _machines(a: BenchmarkSet, b: BenchmarkSet, allow: Collection[str]) -> list[Caveat]:
    found = []
    for title, old, new in (("CPU", a.cpu, b.cpu), ("GPU", a.gpu, b.gpu)):
        if not old or not new or old == new:
            continue
        message = f"the {title} differs: {old!r} in A, {new!r} in B"
        if "different-machine" not in allow:
            raise InvalidInputError(
                f"{message}; measure both on one machine, or pass --allow different-machine"
            )
        found.append(Caveat("machine", message))
    if a.torch and b.torch and a.torch != b.torch:
        message = (
            f"torch differs ({a.torch} in A, {b.torch} in B): the baseline itself may have changed"
        )
        found.append(Caveat("control", message))
    return found


def _caveats(sets: tuple[BenchmarkSet, ...], matches: list[Match]) -> list[Caveat]:
    found = []
    names = ("A", "B") if len(sets) > 1 else ("",)
    for name, one in zip(names, sets, strict=True):
        if one.dirty:
            message = "measured with uncommitted changes"
            found.append(Caveat("dirty", f"{name}: {message}" if name else message))
    there = [match for match in matches if match.b is not None]
    free = sum(not match.controlled for match in there) if len(sets) > 1 else 0
    if free:
        some = f"{free} of {len(there)} benchmarks have" if free < len(there) else "there is"
        found.append(
            Caveat(
                "no-control",
                f"{some} no baseline beside them on both sides: nothing controls for the machine, "
                "whose changes are in the ratio",
            )
        )
    benchmarks = [one for match in there for one in (match.a, match.b) if one is not None]
    if any(NO_SAMPLES in one.lacks for one in benchmarks):
        found.append(
            Caveat("no-samples", f"{NO_SAMPLES}: a launch counts with the median that is stated")
        )
    units = sorted({one.unit or "unknown" for one in benchmarks} - {SECONDS})
    if units:
        found.append(
            Caveat("unit", f"not all are times ({', '.join(units)}): lower is taken as better")
        )
    judged = {id(one) for match in matches for one in (match.a, match.b)}
    for name, one in zip(names, sets, strict=True):
        rest = sum(id(other) not in judged and not other.baseline for other in one.benchmarks)
        if rest:
            many = f"{rest} benchmark{'s are' if rest > 1 else ' is'}"
            where = f"only in {name}" if name else "not of a case of flashbench's"
            found.append(Caveat("not-compared", f"{many} {where} and not compared"))
    return found
