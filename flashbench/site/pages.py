"""The listing pages: overview, graphs, changes, commits, and one per machine."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import numpy as np

from flashbench.history.model import Change, Gap, Machine
from flashbench.site.case_names import in_words
from flashbench.site.commit_pages import CommitPages, measured_on
from flashbench.site.content import (
    HASH,
    Content,
    Graph,
    case_page,
    commit_link,
    commit_page,
    date,
    machine_page,
    moment,
    shown,
)
from flashbench.site.front import front
from flashbench.site.profiles import Profiled, by_commit
from flashbench.site.standings import Standing
from flashbench.site.templating import page
from flashbench.table import finite_exp, ratio_text
from flashbench.views.arrange import verdict_first

SELECTS = (
    ("machine", "machine"),
    ("candidate", "candidate"),
    ("dtype", "dtype"),
    ("causal", "mask"),
    ("device", "device"),
    ("metric", "metric"),
)
LISTED = 5000  # on the page of changes; browsers are slow to lay out tens of thousands


def listing_pages(
    content: Content,
    standings: tuple[Standing, ...],
    changes: dict[int, list[dict[str, Any]]],
    commits: CommitPages,
) -> Iterator[tuple[str, bytes]]:
    """The path and content of each page. changes: from `change_rows`."""
    rows = [row for place in sorted(changes, reverse=True) for row in changes[place]]
    profiled = by_commit(content.profiles, content.history.commits)
    made: list[tuple[str, str, dict[str, Any]]] = [
        ("index.html", "index.html", front(content, standings, rows)),
        ("graphs.html", "graphs.html", {"title": "Graphs", "selects": SELECTS}),
        ("changes.html", "changes.html", _listed(rows)),
        ("commits.html", "commits.html", _commits(content, changes, commits)),
    ]
    for machine in content.history.machines:
        made.append(
            (machine_page(machine.name), "machine.html", _machine(content, machine, profiled))
        )
    for path, template, values in made:
        yield path, page(template, path, content, values)


def viewer_data(content: Content, standings: tuple[Standing, ...]) -> dict[str, Any]:
    """The data that the viewer needs before it loads a graph."""
    return {
        "commits": [
            {
                "hash": shown(one.id),
                "date": date(one.time),
                "time": moment(one.time).partition(" ")[2],
                "subject": shown(one.subject),
                "page": commit_page(one.id),
            }
            for one in content.history.commits
        ],
        "gaps": [
            {
                "commit": gap.commit,
                "machine": shown(gap.machine),
                "status": shown(gap.status),
                "reason": shown(gap.reason.partition("\n")[0]),
            }
            for gap in content.history.gaps
        ],
        "measured": [
            {"machine": shown(one.name), "commits": measured_on(content, one.name)}
            for one in content.history.machines
        ],
        "baseline": content.baseline,
        "graphs": [_entry(graph) for graph in content.graphs],
        "means": [_entry(one.mean) for one in standings if one.mean is not None],
    }


def change_rows(content: Content) -> dict[int, list[dict[str, Any]]]:
    """The rows of changes, by their most likely commit."""
    found: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for graph in content.graphs:
        for change in graph.changes:
            found[change.commit].append(_change(content, graph, change))
    return dict(found)


def _entry(graph: Graph) -> dict[str, Any]:
    dtype, causal, device = graph.traits
    one = graph.series
    return {
        "id": graph.id,
        "title": shown(graph.title),
        "name": shown(one.name),
        "case": shown(one.case),
        "words": in_words(one.case),
        "page": case_page(one.case) if one.case else "",
        "machine": shown(one.machine),
        "candidate": shown(one.candidate),
        "metric": shown(one.metric),
        "dtype": dtype,
        "causal": causal,
        "device": device,
        "changes": len(graph.changes),
        "tail": bool(np.isfinite(one.points.p90).any()),
    }


def _change(content: Content, graph: Graph, change: Change) -> dict[str, Any]:
    commits = content.history.commits
    place = "this commit"
    if change.first != change.last:
        ends = (commits[end].id[:HASH] for end in (change.first, change.last))
        place = f"{change.last - change.first + 1} commits, {' to '.join(ends)}"
    if change.hidden:
        count = len(change.hidden)
        place += f"; {count} of them {'does' if count == 1 else 'do'} not build"
    if change.unmeasured:
        place += f"; {change.unmeasured} {'was' if change.unmeasured == 1 else 'were'} not measured"
    ends_text = ", ".join(_text(end) for end in (change.speedup.low, change.speedup.high))
    return {
        **commit_link(content, change.commit),
        "place_of": change.commit,
        "faster": change.speedup.value > 0,
        "provisional": change.provisional,
        "speed": f"{_text(change.speedup.value)} [{ends_text}]",
        "place": place,
        "graph": graph.id,
        "series": graph.title,
    }


def _listed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"title": "Changes", "rows": rows[:LISTED], "older": max(0, len(rows) - LISTED)}


def _commits(
    content: Content, changes: dict[int, list[dict[str, Any]]], pages: CommitPages
) -> dict[str, Any]:
    gaps: dict[int, list[Gap]] = defaultdict(list)
    for gap in content.history.gaps:
        gaps[gap.commit].append(gap)
    rows = []
    for place in reversed(range(len(content.history.commits))):
        states = [
            f"{gap.status} on {gap.machine}" if gap.machine else gap.status for gap in gaps[place]
        ]
        measured = pages.series(place)
        rows.append(
            {
                **commit_link(content, place),
                "author": content.history.commits[place].author,
                "series": measured,
                "changes": len(changes.get(place, ())),
                "broken": bool(states),
                "state": "; ".join(states) or ("measured" if measured else "not measured"),
            }
        )
    return {"title": "Commits", "rows": rows}


def _machine(
    content: Content, machine: Machine, profiled: dict[int, list[Profiled]]
) -> dict[str, Any]:
    devices = []
    for latest in content.latest:
        if latest.machine == machine.name:
            devices.append(
                {
                    **commit_link(content, latest.commit),
                    "device": latest.device,
                    "processor": latest.processor,
                    "table": verdict_first(latest.table),
                    "percentiles": latest.percentiles,
                    "figures": latest.figures,
                }
            )
    broken = [
        {
            **commit_link(content, gap.commit),
            "status": gap.status,
            "reason": gap.reason.partition("\n")[0],
        }
        for gap in reversed(content.history.gaps)
        if gap.machine in ("", machine.name)
    ]
    cases = {graph.series.case for graph in content.graphs}
    return {
        "title": machine.name,
        "facts": _facts(machine),
        "query": urlencode({"machine": shown(machine.name)}),
        "devices": devices,
        "pages": {case: case_page(case) for case in cases if case},
        "broken": broken,
        "profiles": [
            (commit_link(content, place), found)
            for place in sorted(profiled, reverse=True)
            if (found := [one for one in profiled[place] if one.machine == machine.name])
        ],
    }


def _facts(machine: Machine) -> list[tuple[str, str]]:
    known = (
        ("GPU", machine.gpu),
        ("CPU", machine.cpu),
        ("system", machine.os),
    )
    return [(name, value) for name, value in known if value]


def _text(log_ratio: float) -> str:
    ratio = finite_exp(log_ratio)
    return "?" if ratio is None else ratio_text(ratio)
