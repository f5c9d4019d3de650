"""The front page: the answer first, then the evidence."""

from collections import Counter
from typing import Any

import numpy as np

from flashbench.history.model import Machine
from flashbench.metric import label_of
from flashbench.site import sparkline
from flashbench.site.case_names import in_short, in_words
from flashbench.site.commit_pages import measured_on
from flashbench.site.content import Content, commit_link, date, machine_page
from flashbench.site.slower import slower
from flashbench.site.standings import Standing, since, state_of
from flashbench.table import ratio_text

CARDS = 12  # standings; the others are on their machines' pages
RECENT = 5  # changes, newest first
BROKEN = 5  # commits that are named
NOTES = 50  # on skipped files
_ANSWERS = {
    "faster": "faster",
    "slower": "as fast: slower",
    "as fast": "as fast, within the interval",
    "unknown": "as fast, without an interval",
}


def front(
    content: Content, standings: tuple[Standing, ...], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """The page's values. rows: the changes, newest first."""
    commits = content.history.commits
    days = [date(one.time) for one in (commits[:1] + commits[-1:])]
    cards = [card(content, one) for one in standings[:CARDS]]
    recent = []
    cases = [graph.series.case for graph in content.graphs]
    by_id = {graph.id: graph for graph in content.graphs}
    for row in rows[:RECENT]:
        graph = by_id[row["graph"]]
        change = next(one for one in graph.changes if one.commit == row["place_of"])
        recent.append({**row, "sparkline": sparkline.of_change(graph, change)})
    return {
        "title": f"{content.project}: is it fast, at every commit?",
        "example": next(
            ((in_short(name), words) for name in cases if (words := in_words(name))), None
        ),
        "commits": len(commits),
        "span": " to ".join(dict.fromkeys(days)),
        "graphs": len(content.graphs),
        "cards": cards,
        "others": len(standings) - len(cards),
        "slower": slower(content),
        "last": _last(rows),
        "builds": _builds(content),
        "recent": recent,
        "changes_count": len(rows),
        "machines": [_machine(content, machine) for machine in content.history.machines],
        "notes": content.notes[:NOTES],
    }


def card(content: Content, standing: Standing) -> dict[str, Any]:
    """The card of one candidate on one device."""
    known = {one.name: one for one in content.history.machines}[standing.machine]
    processor = known.gpu if standing.device == "cuda" else known.cpu
    made: dict[str, Any] = {
        "processor": processor or standing.machine,
        "machine": standing.machine,
        "page": machine_page(standing.machine),
        "candidate": standing.candidate,
        "metric": label_of(standing.metric),
        "cases": standing.cases or len(standing.graphs),
        "newest": commit_link(content, standing.newest),
        "graph": None,
        "state": "unknown",
        **dict.fromkeys(("value", "interval", "first", "began", "since", "verdicts"), ""),
    }
    points = standing.points
    if standing.mean is None or points is None:
        return made
    value, low, high = _judged(content, standing) or (
        float(column[-1]) for column in (points.value, points.low, points.high)
    )
    if np.isfinite([low, high]).all():
        made["state"] = state_of(low, high)
        made["interval"] = f"{ratio_text(low)} to {ratio_text(high)}"
    made["answer"] = _ANSWERS[made["state"]]
    if made["state"] == "unknown" and (launches := int(points.launches[-1])):
        made["answer"] = f"as fast, by {launches} launches, too few for an interval,"
    start = None if made["state"] == "unknown" else since(points, made["state"])
    return made | {
        "graph": standing.mean.id,
        "value": ratio_text(value),
        "first": ratio_text(float(points.value[0])),
        "began": commit_link(content, int(points.commit[0])),
        "since": None if start is None else commit_link(content, start),
        "measured": len(points),
        "verdicts": _verdicts(content, standing),
    }


def _judged(content: Content, standing: Standing) -> tuple[float, float, float] | None:
    """The geometric mean by the newest commit's verdicts, with its interval (NaN if launches are
    too few for one), if they are of the same cases: that of its table."""
    for latest in content.latest:
        if (latest.machine, latest.device) == (standing.machine, standing.device):
            mean = latest.table.summary.get(f"geometric_mean:{standing.candidate}")
            same = sum("speedup" in row for row in latest.table.rows) == standing.cases
            if isinstance(mean, dict) and same and latest.commit == standing.newest:
                found = [mean[f"speedup{end}"] for end in ("", "_low", "_high")]
                value, low, high = (one if isinstance(one, float) else np.nan for one in found)
                return (value, low, high) if np.isfinite(value) else None
    return None


def _verdicts(content: Content, standing: Standing) -> str:
    """The number of cases with each verdict at the newest commit; "" without any."""
    counts: Counter[str] = Counter()
    for latest in content.latest:
        if (latest.machine, latest.device) == (standing.machine, standing.device):
            for row in latest.table.rows:
                named = row.get("candidate")
                if "verdict" in row and (named is None or named.text == standing.candidate):
                    counts[row["verdict"].text] += 1
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())


def _last(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The newest commit with changes that count, how many series it made faster and slower, and the
    newer changes that are provisional. rows: newest first."""
    sure = [row for row in rows if not row["provisional"]]
    confirmed = None
    if sure:
        same = [row for row in sure if row["place_of"] == sure[0]["place_of"]]
        faster = sum(row["faster"] for row in same)
        confirmed = sure[0] | {"faster_count": faster, "slower_count": len(same) - faster}
    newer = rows[: rows.index(sure[0])] if sure else rows
    return {"confirmed": confirmed, "provisional": newer[:1], "provisional_count": len(newer)}


def _builds(content: Content) -> dict[str, Any]:
    """A strip that shows which commits build, and the newest that do not."""
    commits = content.history.commits
    measured = {
        place
        for machine in content.history.machines
        for place in measured_on(content, machine.name)
    }
    failed = {gap.commit: gap for gap in content.history.gaps if gap.commit not in measured}
    newest = sorted(failed, reverse=True)
    tried = sorted(measured | failed.keys())
    last = max(tried, default=None)
    return {
        "strip": sparkline.strip(len(commits), measured, failed.keys()),
        "tried": len(tried),
        "failed": len(failed),
        "untried": len(commits) - 1 - last if last is not None else len(commits),
        "newest": None if last is None else commit_link(content, last),
        "newest_fails": last in failed,
        "named": [
            {
                **commit_link(content, place),
                "status": failed[place].status,
                "machine": failed[place].machine,
                "reason": failed[place].reason.partition("\n")[0],
            }
            for place in newest[:BROKEN]
        ],
    }


def _machine(content: Content, machine: Machine) -> dict[str, Any]:
    facts = [fact for fact in (machine.gpu, machine.cpu, machine.os) if fact]
    return {
        "name": machine.name,
        "page": machine_page(machine.name),
        "facts": facts,
        "measured": len(measured_on(content, machine.name)),
    }
