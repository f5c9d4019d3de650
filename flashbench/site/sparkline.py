"""Small pictures without an axis: a change in its series, and the builds of all commits.

Positions are percentages of the width, so that a picture fills its box on any screen.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

from flashbench.history.model import Change
from flashbench.site.content import Graph

POINTS = 60  # of a sparkline; it is about 120 pixels wide
HEIGHT = 30


def of_change(graph: Graph, change: Change) -> dict[str, Any]:
    """The line of a series, with the range of commits that a change may be in."""
    points = graph.judged
    places = np.unique(
        np.linspace(0, len(points) - 1, min(POINTS, len(points))).round().astype(int)
    )
    at = int(np.searchsorted(points.commit, change.commit))
    places = np.unique(np.append(places, [max(0, at - 1), at]))
    values = np.log(points.value[places])
    low, high = float(values.min()), float(values.max())
    room = max(high - low, 0.02)
    x = 100 * places / max(1, len(points) - 1)
    y = HEIGHT - 3 - (HEIGHT - 6) * (values - (low + high - room) / 2) / room
    line = "L".join(f"{a:.1f},{b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    first = float(np.interp(change.first - 0.5, points.commit, np.arange(len(points))))
    last = float(np.interp(change.last, points.commit, np.arange(len(points))))
    scale = 100 / max(1, len(points) - 1)
    return {
        "line": f"M{line}",
        "first": round(first * scale, 1),
        "width": round(max(1.0, (last - first) * scale), 1),
        "at": round(at * scale, 1),
        "height": HEIGHT,
    }


def strip(commits: int, measured: Collection[int], failed: Collection[int]) -> list[dict[str, Any]]:
    """Runs of commits with one state, oldest first. If most commits were not tried, leaves those
    out."""
    tried = sorted({*measured, *failed})
    places = tried if 2 * len(tried) < commits else list(range(commits))
    runs: list[dict[str, Any]] = []
    for x, place in enumerate(places):
        state = "failed" if place in failed else "measured" if place in measured else "untried"
        if runs and runs[-1]["state"] == state:
            runs[-1]["count"] += 1
        else:
            runs.append({"state": state, "start": x, "count": 1})
    for run in runs:
        run["x"] = round(100 * run["start"] / len(places), 3)
        run["width"] = round(100 * run["count"] / len(places), 3)
    return runs
