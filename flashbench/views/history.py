"""The view of `flashbench history`: one row per change, latest first."""

from collections import Counter

from flashbench.cost.spent import Spent
from flashbench.history.model import Change, Series
from flashbench.history.report import HistoryReport
from flashbench.outcome import Outcome
from flashbench.stats.segments import FEWEST
from flashbench.table import (
    NONE,
    Cell,
    Column,
    Document,
    Note,
    bounds_cells,
    count_cell,
    interval_columns,
    name_column,
    percentage,
    speedup_cell,
    text_cell,
)
from flashbench.views.frame import cost_columns

SHOWN = 8  # digits of a commit
_MOST_NOTES = 20  # on skipped files


def document(report: HistoryReport) -> Document:
    """The table; JSON and CSV get every field of a change."""
    listed = sorted(
        (
            (change, one)
            for index, one in enumerate(report.series)
            for change in report.changes(index)
        ),
        key=lambda pair: (-pair[0].commit, pair[1].machine, pair[1].name),
    )
    return Document(
        "history",
        _header(report),
        _columns(report),
        [_row(report, change, one) for change, one in listed],
        {
            "commits": len(report.history.commits),
            "series": len(report.series),
            "changes": len(listed),
            **_costs(Spent.total(_spent(report).values())),
            "too_few_points": sum(one is None for one in report.found.changes),
            "tolerance": report.tolerance,
            "confidence": round(1 - report.alpha, 12),
            "penalty_factors": dict(report.found.factors),
        },
        _footer(report, [change for change, _ in listed]),
        _notes(report, [change for change, _ in listed]),
    )


def _spent(report: HistoryReport) -> dict[str, Spent]:
    """On the results of all commits in the range, by machine."""
    parts: dict[str, list[Spent]] = {}
    for (machine, place), one in report.history.spent.items():
        if place not in report.since:
            parts.setdefault(machine, []).append(one)
    return {machine: Spent.total(several) for machine, several in parts.items()}


def _costs(spent: Spent) -> dict[str, float | str | None]:
    """For programs; a history does not know what was lost, saved or rented."""
    unknown = ("lost_", "saved_", "rented_")
    return {name: one for name, one in spent.summary().items() if not name.startswith(unknown)}


def _header(report: HistoryReport) -> list[str]:
    measured = {int(place) for one in report.series for place in one.judged.commit}
    machines = ", ".join(machine.name for machine in report.history.machines) or "no machine"
    lines = [
        f"history of {report.label} on {machines}: {len(report.series)} series, measured at "
        f"{len(measured)} of {len(report.history.commits)} commits",
        "speed-up = time before / time after the change, both as multiples of the baseline's: "
        "above 1 is faster",
        f"intervals: {percentage(1 - report.alpha)}, each for itself; tolerance "
        f"{percentage(report.tolerance)}; the commit is the likeliest, the change lies in the "
        "range with 95 %",
    ]
    without = sum(one.ratio is None for one in report.series)
    if without:
        beside, its = ("it", "its") if without == 1 else ("them", "their")
        lines.append(
            f"{_series(without)} no baseline beside {beside}: what the machine did is in {its} "
            "changes"
        )
    of_medians = sum(one.of_medians for one in report.series)
    if of_medians:
        lines.append(
            f"{of_medians} series kept no ratio by launch: theirs is the ratio of the medians, "
            "without an interval"
        )
    return lines


def _columns(report: HistoryReport) -> list[Column]:
    several = {
        name: len({getattr(one, name) for one in report.series}) > 1
        for name in ("candidate", "machine", "environment", "metric")
    }
    places = {(one.machine, one.environment) for one in report.series}
    several["environment"] = len(places) > len({machine for machine, _ in places})
    hidden = any(
        change.hidden for index in range(len(report.series)) for change in report.changes(index)
    )
    return [
        name_column("case", "case"),
        *(name_column(name, name, "text" if several[name] else "data") for name in several),
        Column("benchmark", "", "data", False),
        Column("control", "", "data", False),
        name_column("commit", "commit"),
        Column("subject", "subject", "wide", False),
        Column("range", "range", numeric=False),
        Column("first", "", "data", False),
        Column("last", "", "data", False),
        Column("commits", "commits"),
        Column("unmeasured", "unmeasured", "wide"),
        Column("broken", "broken", "text" if hidden else "wide"),
        Column("broken_reason", "", "data", False),
        Column("points_before", "", "data"),
        Column("points_after", "", "data"),
        *cost_columns(),
        *interval_columns("speedup", "speed-up", "key"),
        Column("verdict", "verdict", "key", numeric=False),
        Column("provisional", "", "data", False),
    ]


def _row(report: HistoryReport, change: Change, one: Series) -> dict[str, Cell]:
    commits = report.history.commits
    first, last = commits[change.first], commits[change.last]
    spent = report.history.spent.get((one.machine, change.commit))
    where = first.id[:SHOWN]
    if change.last > change.first:
        where += f"..{last.id[:SHOWN]}"
    # A merged commit may have caused it as well.
    merged = sum(len(commits[index].merged) for index in range(change.first, change.last + 1))
    count = change.last - change.first + 1 + merged
    reason = change.hidden[0] if change.hidden else None
    return {
        "case": text_cell(one.case or one.name),
        "candidate": text_cell(one.candidate),
        "machine": text_cell(one.machine),
        "environment": text_cell(one.environment),
        "metric": text_cell(one.metric),
        "benchmark": text_cell(one.benchmark),
        "control": Cell(one.ratio is not None, ""),
        "commit": Cell(commits[change.commit].id, commits[change.commit].id[:SHOWN]),
        "subject": text_cell(commits[change.commit].subject),
        "range": text_cell(where),
        "first": text_cell(first.id),
        "last": text_cell(last.id),
        "commits": count_cell(count),
        "unmeasured": count_cell(change.unmeasured),
        "broken": count_cell(len(change.hidden)),
        "broken_reason": text_cell(f"{reason.status}: {reason.reason}") if reason else NONE,
        "points_before": count_cell(change.before),
        "points_after": count_cell(change.after),
        "device_seconds": Cell(spent.device if spent else None),
        "cost": Cell(spent.money(spent.device) if spent else None),
        "speedup": speedup_cell(change.speedup),
        **bounds_cells("speedup", change.speedup),
        "verdict": _verdict_cell(report, change),
        "provisional": Cell(change.provisional, ""),
    }


def _verdict_cell(report: HistoryReport, change: Change) -> Cell:
    word = report.outcome(change).value
    return Cell(word, f"{word}, provisional" if change.provisional else word)


def _footer(report: HistoryReport, changes: list[Change]) -> list[str]:
    costs = [f"measured on {machine}: {spent.line}" for machine, spent in _spent(report).items()]
    return [*_counted(report, changes), *costs]


def _counted(report: HistoryReport, changes: list[Change]) -> list[str]:
    if not changes:
        return ["no change"]
    counts = Counter(report.outcome(change) for change in changes if not change.provisional)
    counted = [f"{name.value} {counts[name]}" for name in Outcome if counts[name]]
    provisional = sum(change.provisional for change in changes)
    if provisional:
        counted.append(f"provisional {provisional}")
    several = f"{len(changes)} change{'s' * (len(changes) != 1)}"
    slower = sum(report.regressed(index) for index in range(len(report.series)))
    return [
        f"{several}: {', '.join(counted)}",
        f"slower at the end than at the beginning: {slower} series",
    ]


def _series(count: int) -> str:
    return f"{count} series {'has' if count == 1 else 'have'}"


def _notes(report: HistoryReport, changes: list[Change]) -> list[Note]:
    commits, found = report.history.commits, []
    few = sum(one is None for one in report.found.changes)
    if few:
        found.append(Note("too-few-points", f"{_series(few)} fewer than {FEWEST} points"))
    hidden = {gap.commit: gap for change in changes for gap in change.hidden}
    for place, gap in sorted(hidden.items(), reverse=True)[:_MOST_NOTES]:
        reason = f"{gap.status}: {gap.reason.partition(chr(10))[0]}"
        found.append(Note("broken", f"{commits[place].id[:SHOWN]} could not be measured: {reason}"))
    for machine, factor in sorted(report.found.factors.items()):
        if factor > 1:
            found.append(
                Note(
                    "noise",
                    f"{machine}: its noise asks for {factor:.2f} times the penalty, so changes "
                    "have to be larger or last longer",
                )
            )
    if report.history.off_axis:
        count = len(report.history.off_axis)
        line = f"{count} commits that were measured are not of this history's line"
        found.append(Note("off-axis", line + report.history.off_axis_hint))
    found += [Note("profile", text) for text in report.profiles[:_MOST_NOTES]]
    passed = report.history.notes
    found += [Note("passed-over", text) for text in passed[:_MOST_NOTES]]
    if len(passed) > _MOST_NOTES:
        found.append(Note("passed-over", f"and {len(passed) - _MOST_NOTES} more"))
    return found
