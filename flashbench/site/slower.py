"""What got slower, or may have: the front page's answer."""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, Self

from flashbench.history.model import Change
from flashbench.metric import label_of
from flashbench.site.case_names import in_short
from flashbench.site.content import Content, Graph, case_page, commit_link
from flashbench.site.jumps import below_best, newly_slower
from flashbench.table import ratio_text

NAMED = 5  # series of a list


@dataclass(frozen=True, slots=True)
class _Slower:
    """A series that is slower from a commit on. speed: after over before, below 1."""

    graph: Graph
    commit: int
    speed: float

    @classmethod
    def by(cls, graph: Graph, change: Change) -> Self:
        return cls(graph, change.commit, math.exp(change.speedup.value))


def slower(content: Content) -> dict[str, Any]:
    """The series whose last change that counts made them slower; and those that may be slower, by a
    provisional change, by a jump at the newest commits, or by their distance to their best."""
    sure, provisional = [], []
    for graph in content.graphs:
        counted = [one for one in graph.changes if not one.provisional][-1:]
        sure += [_Slower.by(graph, one) for one in counted if one.speedup.value < 0]
        doubtful = [one for one in graph.changes[-1:] if one.provisional]
        provisional += [_Slower.by(graph, one) for one in doubtful if one.speedup.value < 0]
    jumped = [
        _Slower(graph, jump.commit, jump.speedup)
        for graph in content.graphs
        if (jump := newly_slower(graph.series.judged, graph.jumps))
    ]
    listed = {one.graph.id for one in [*sure, *jumped]}
    fell = [
        _Slower(graph, jump.commit, jump.speedup)
        for graph in content.graphs
        if graph.id not in listed and (jump := below_best(graph.series.judged))
    ]
    known = {one.graph.id for one in sure}
    maybe = [one for one in [*provisional, *jumped, *fell] if one.graph.id not in known]
    newest = sorted(sure, key=lambda one: -one.commit)[:NAMED]
    return {
        "sure": _in_short(sure),
        "named": _by_commit(content, newest),
        "more": len(sure) - len(newest),
        "maybe": _in_short(maybe),
        "provisional": _worst(content, provisional),
        "jumped": _worst(content, jumped),
        "fell": _worst(content, fell),
    }


def _in_short(found: list[_Slower]) -> dict[str, Any]:
    """How many series they are, by which metrics, by how much at most, and where."""
    machines = sorted({one.graph.series.machine for one in found})
    least = min((one.speed for one in found), default=1.0)
    metrics = Counter({one.graph.id: label_of(one.graph.series.metric) for one in found}.values())
    return {
        "count": metrics.total(),
        "by": " and ".join(
            f"{count} by {name}" if len(metrics) > 1 else f"by {name}"
            for name, count in metrics.most_common()
        ),
        "most": f"{100 * (1 - least):.2g} %",
        "where": machines[0] if len(machines) == 1 else f"{len(machines)} machines",
    }


def _worst(content: Content, found: list[_Slower]) -> dict[str, Any]:
    worst = sorted(found, key=lambda one: one.speed)[:NAMED]
    return {
        "count": len(found),
        "more": len(found) - len(worst),
        "named": _by_commit(content, worst),
    }


def _by_commit(content: Content, found: list[_Slower]) -> list[dict[str, Any]]:
    """The values that name series, the commit that made each slower and its speed after over
    before, by commit."""
    series: dict[int, list[dict[str, str]]] = defaultdict(list)
    for fall in found:
        one = fall.graph.series
        series[fall.commit].append(
            {
                "name": in_short(one.case) if one.case else one.name,
                "metric": label_of(one.metric),
                "page": case_page(one.case) if one.case else f"graphs.html#graph={fall.graph.id}",
                "machine": one.machine,
                "size": ratio_text(fall.speed),
            }
        )
    return [{"commit": commit_link(content, at), "series": ones} for at, ones in series.items()]
