"""The frame around every table: the origin of the numbers, how to read them, their cost."""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

from flashbench.comparison import Comparison
from flashbench.cost.spent import Spent, rate_of, seconds_of_more
from flashbench.errors import Exit
from flashbench.launches import LaunchData
from flashbench.metric import label_of
from flashbench.outcome import Outcome
from flashbench.report import Report
from flashbench.runfile import Candidate, Environment
from flashbench.table import (
    INTERVALS,
    NONE,
    Cell,
    Column,
    Note,
    Value,
    bounds_cells,
    count_cell,
    finite_exp,
    p_cell,
    percent_cell,
    percentage,
    speedup_cell,
    text_cell,
)
from flashbench.verdict import MAX_PLANNED_LAUNCHES, Verdict, exit_code

_ANSWERS = {
    Exit.PASS: "Pass",
    Exit.REGRESSION: "Regression",
    Exit.NOT_MEASURED: "Not measured",
    Exit.UNDECIDED: "Undecided",
}
_NUMBER = re.compile(r"[0-9]+")
_PLAIN = (Outcome.FASTER, Outcome.SLOWER, Outcome.SAME)


def sides(report: Report) -> list[tuple[str, LaunchData]]:
    """The report's run files with their names: "" for one, "A" and "B" for two."""
    names = ("A", "B") if len(report.data) > 1 else ("",)
    return list(zip(names, report.data, strict=True))


def identity(report: Report) -> list[str]:
    """One line per run file: machine, torch, launches, metric, builds."""
    return [line for name, data in sides(report) for line in run_identity(name, data)]


def run_identity(name: str, data: LaunchData) -> list[str]:
    """The line of one run file. name: "", "A" or "B"."""
    run = data.run
    devices = sorted({case.device for case in run.cases})
    parts = [
        *(machine_text(run.environment, device) for device in devices),
        f"torch {run.environment.torch}" if run.environment.torch else "",
        f"{len(run.launches)} launch{'es' * (len(run.launches) != 1)}",
        *sorted({label_of(metric) for metric in data.metrics}),
        *[_build(c) for c in run.candidates if c.build.commit],
    ]
    return [f"{name}: " * bool(name) + ", ".join(part for part in parts if part)]


def summary(report: Report) -> dict[str, Value | dict[str, Value]]:
    """The totals for programs."""
    counts = Counter(verdict.outcome for verdict in report.verdicts)
    found: dict[str, Value | dict[str, Value]] = {
        "comparisons": len(report.comparisons),
        "verdicts": {outcome.value: counts[outcome] for outcome in Outcome},
        "tolerance": report.tolerance,
        "confidence": round(1 - report.alpha, 12),
        **spent(report).summary(),
    }
    for name, shift in report.overall.items():
        found[f"geometric_mean:{name}"] = {
            "speedup": finite_exp(shift.value),
            "speedup_low": finite_exp(shift.low),
            "speedup_high": finite_exp(shift.high),
        }
    return found


def verdict(report: Report) -> str:
    """The gate's answer in one sentence, ignoring `--allow`: counts, and the worst case."""
    several = len({c.candidate for c in report.comparisons}) > 1
    total = len(report.verdicts)
    unit = f"{'comparison' if several else 'case'}{'s' * (total != 1)}"
    slower = [
        comparison for comparison, verdict in report.judged if verdict.outcome is Outcome.SLOWER
    ]
    counts = ", ".join(f"{count} {outcome.value}" for outcome, count in _counts(report))
    sentence = f"{_answer(report)}: of {total} {unit} {counts}"
    if slower:
        worst = min(slower, key=lambda c: c.shift.value if c.shift else 0.0)
        name = worst.case.id + f" ({worst.candidate})" * several
        sentence += f"; worst {name}, speed-up {speedup_cell(worst.shift).text}"
    return sentence


def footer(report: Report) -> list[str]:
    """The totals for readers."""
    lines = []
    for name, shift in report.overall.items():
        count = sum(1 for c in report.comparisons if c.candidate == name and c.shift)
        cases = f"{count} case{'s' * (count != 1)}"
        mean = speedup_cell(shift, interval=shift.bounded).text
        without = "" if shift.bounded else ", without an interval: too few launches with every case"
        lines.append(f"geometric mean of {name}: {mean} over {cases}{without}")
    if report.verdicts:
        lines.append(", ".join(f"{outcome.value} {count}" for outcome, count in _counts(report)))
    if taken := spent(report):
        lines.append(taken.line)
    return lines


def levels(report: Report, when: str = "") -> str:
    """Confidence, the family of intervals it covers, why some have no ends, and the tolerance.
    when: the intervals hold."""
    shifts = [one.shift for one in report.comparisons if one.shift]
    family = f"{len(shifts)} comparisons together" if len(shifts) > 1 else "the comparison"
    intervals = f"{INTERVALS}{percentage(1 - report.alpha)} for {family}{when}; " if shifts else ""
    endless = (
        "" if all(one.bounded for one in shifts) else "[?, ?]: too few launches for an interval; "
    )
    return f"{intervals}{endless}tolerance {percentage(report.tolerance)}"


def verdict_cells(comparison: Comparison, verdict: Verdict) -> dict[str, Cell]:
    """The cells that every table of verdicts has for a comparison."""
    shift, pairing = comparison.shift, comparison.pairing
    return {
        "speedup": speedup_cell(shift),
        **bounds_cells("speedup", shift),
        "p": p_cell(comparison.p_family, least=comparison.least_p),
        "p_least": Cell(None if comparison.p_family is None else comparison.least_p),
        "detectable_percent": percent_cell(verdict.detectable),
        "verdict": text_cell(verdict.outcome.value),
        "against": text_cell(pairing.against),
        "metric": text_cell(pairing.metric),
        "launches": count_cell(min(pairing.launches, default=0)),
        "launches_needed": Cell(verdict.launches),
        "reason": text_cell(verdict.full_reason),
    }


def notes(report: Report) -> list[Note]:
    """Caveats, then why a case has no plain verdict."""
    alike: dict[tuple[str, str, str], list[tuple[Comparison, Verdict]]] = {}
    for comparison, verdict in report.judged:
        if verdict.outcome not in _PLAIN:
            alike.setdefault(_kind(comparison, verdict), []).append((comparison, verdict))
    advice = {kind: _advice(report, found) for kind, found in alike.items()}
    reasons = []
    for comparison, verdict in report.judged:
        who, case = comparison.candidate, comparison.case.id
        if found := advice.get(_kind(comparison, verdict)):
            reasons.append((verdict.outcome.value, who, case, found))
        if part := comparison.pairing.partial:
            many = f"{part.launches} launch{'es' * (part.launches != 1)}"
            reason = f"{many} {part.status}: {part.reason}; the others are compared"
            reasons.append(("partial", who, case, reason))
    return [Note(caveat.code, caveat.message) for caveat in report.caveats] + grouped(reasons)


def _kind(comparison: Comparison, verdict: Verdict) -> tuple[str, str, str]:
    """Verdicts of one kind share a note: all whose intervals are too wide, or of one reason."""
    return verdict.outcome.value, comparison.candidate, "" if verdict.wide else verdict.reason


def _advice(report: Report, alike: Sequence[tuple[Comparison, Verdict]]) -> str:
    """The reason of these verdicts, the launches that would decide most of them (more than half),
    and the time that these take."""
    reasons = {verdict.reason for _, verdict in alike}
    wide = len(reasons) > 1
    reason = "the intervals are too wide" if wide else reasons.pop()
    planned = sorted(verdict.launches for _, verdict in alike if verdict.launches is not None)
    if len(planned) <= len(alike) // 2:
        needed = f"; more than {MAX_PLANNED_LAUNCHES} launches would be needed"
        if planned:
            return f"{reason}{needed} for most of these {len(alike)}"
        return reason + needed * wide
    most = planned[len(alike) // 2]
    count = bisect_right(planned, most)
    would = "would decide" if count == len(alike) else f"would decide {count} of these {len(alike)}"
    cases = {comparison.case.id for comparison, _ in alike}
    seconds = sum(seconds_of_more(data.run, cases, most) for data in report.data)
    return f"{reason}; {alike[0][1].plan(most, would)}{_in_time(seconds)}"


def _in_time(seconds: float) -> str:
    if not seconds:
        return ""
    if seconds < 100:
        return f", in {math.ceil(seconds)} s more"
    count, unit = (seconds / 60, "min") if seconds < 5400 else (seconds / 3600, "h")
    return f", in {count:.{int(count < 10)}f} {unit} more"


def failures(name: str, data: LaunchData, candidates: Sequence[int]) -> list[Note]:
    """Why these candidates of a run file have no time on cases, or times from only some launches.
    name: of the file, "", "A" or "B"."""
    reasons = []
    for candidate in candidates:
        for place, case in enumerate(data.run.cases):
            found = data.failure(candidate, place)
            if found is not None:
                who = f"{name}: " * bool(name) + data.run.candidates[candidate].name
                reasons.append((found.status.replace("_", " "), who, case.id, found.reason))
    return grouped(reasons)


def grouped(reasons: Iterable[tuple[str, str, str, str]]) -> list[Note]:
    """Notes from (code, candidate, case, reason); a candidate's cases whose reasons differ only in
    numbers share a line that names the first."""
    cases: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for code, who, case, reason in reasons:
        cases.setdefault((code, who, _NUMBER.sub("#", reason)), []).append((case, reason))
    found = []
    for (code, who, _), alike in cases.items():
        ids, same = [case for case, _ in alike], len({reason for _, reason in alike}) == 1
        first = f"{who} on {ids[0]}{more(ids) * same}: {alike[0][1]}".removesuffix(": ")
        others = "" if same else f" (on {len(ids) - 1} more the same, with other numbers)"
        found.append(Note(code, first + others))
    return found


def more(ids: list[str]) -> str:
    """How many ids there are beside the first, in words; "" for none."""
    return f" and {len(ids) - 1} more" if len(ids) > 1 else ""


def spent(report: Report) -> Spent:
    """The cost of all run files of the report."""
    return Spent.all_of(data.run for data in report.data)


def cost_columns() -> list[Column]:
    """Columns for the cost of a candidate on a case."""
    return [
        Column("device_seconds", "", "data"),
        Column("cost", "", "data"),
        Column("currency", "", "data", numeric=False),
    ]


def cost_cells(data: LaunchData, candidate: int | None, case: int | None) -> dict[str, Cell]:
    """The cells of `cost_columns`."""
    seconds = 0.0
    if candidate is not None and case is not None:
        seconds = data.device_seconds(candidate, case)
    return spent_cells(Spent(seconds, rate=rate_of(data.run)))


def spent_cells(spent: Spent) -> dict[str, Cell]:
    """The cells of `cost_columns`; without numbers where no seconds are known."""
    seconds = spent.device or None
    cost = seconds and spent.money(seconds)
    currency = spent.rate.currency if spent.rate and cost is not None else ""
    return {
        "device_seconds": Cell(seconds),
        "cost": Cell(cost),
        "currency": text_cell(currency) if currency else NONE,
    }


def _answer(report: Report) -> str:
    """The meaning of the exit code; a wrong result is not a regression."""
    outcomes = {verdict.outcome for verdict in report.verdicts}
    if Outcome.WRONG in outcomes:
        return "Wrong result and regression" if Outcome.SLOWER in outcomes else "Wrong result"
    return _ANSWERS[exit_code(report.verdicts)]


def _counts(report: Report) -> list[tuple[Outcome, int]]:
    counts = Counter(verdict.outcome for verdict in report.verdicts)
    return [(outcome, counts[outcome]) for outcome in Outcome if counts[outcome]]


def _build(candidate: Candidate) -> str:
    build = candidate.build
    called = "" if build.commit.startswith(build.revision) else f" ({build.revision})"
    changed = " with uncommitted changes" if build.dirty else ""
    return f"{candidate.name} at {build.commit[:12]}{called}{changed}"


def machine_text(environment: Environment, device: str) -> str:
    """The processor of that device, as a reader names it."""
    if device == "cuda":
        return environment.gpu or "unknown GPU"
    count = environment.threads or 0
    threads = f" with {count} thread{'s' * (count != 1)}" if count else ""
    return (environment.cpu or "unknown CPU") + threads
