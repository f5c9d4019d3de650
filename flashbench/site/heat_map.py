"""The speed-ups of a standing's cases at each commit, small enough to load at once."""

from typing import Any

import numpy as np

from flashbench.arrays import FloatArray, IntArray
from flashbench.history.model import Gap, together
from flashbench.site.case_names import in_short
from flashbench.site.content import case_page, shown
from flashbench.site.standings import Standing

COLUMNS = 160  # columns of commits; a phone has about two pixels for each
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_WIDEST = 64.0  # speed-ups beyond it, or below its inverse, are clamped
_LEVELS = len(_DIGITS) ** 2 - 2  # besides 0, which is no number


def heat_map(standing: Standing, gaps: tuple[Gap, ...]) -> dict[str, Any]:
    """The data of the heat map. columns: first and last commit of each. cells: per row, two base-64
    digits per column, a number n for the speed-up widest**(2 (n - 1) / levels - 1), 0 for none.
    Rows are sorted by their newest speed-up, slowest first."""
    judged = [graph.series.judged for graph in standing.graphs]
    failed = {gap.commit for gap in gaps if gap.machine in ("", standing.machine)}
    tried = together([np.array(sorted(failed), dtype=np.int64), *(p.commit for p in judged)])
    column = np.arange(len(tried)) * min(COLUMNS, len(tried)) // max(1, len(tried))
    ends = [tried[column == one][[0, -1]].tolist() for one in range(int(column.max()) + 1)]
    order = sorted(range(len(judged)), key=lambda row: -float(judged[row].value[-1]))
    rows, cells = [], []
    for row in order:
        graph, points = standing.graphs[row], judged[row]
        numbers = np.zeros(len(ends), dtype=np.int64)
        # If a column has several commits, the last one counts.
        numbers[column[np.searchsorted(tried, points.commit)]] = _levels(1 / points.value)
        cells.append("".join(_DIGITS[n // 64] + _DIGITS[n % 64] for n in numbers.tolist()))
        case = graph.series.case
        rows.append({"name": shown(in_short(case)), "page": case_page(case), "graph": graph.id})
    broken = [
        place for place, (first, last) in enumerate(ends) if failed & {*range(first, last + 1)}
    ]
    return {
        "levels": _LEVELS,
        "widest": _WIDEST,
        "columns": ends,
        "broken": broken,
        "rows": rows,
        "cells": cells,
    }


def _levels(speedup: FloatArray) -> IntArray:
    part = np.clip((np.log(speedup) / np.log(_WIDEST) + 1) / 2, 0, 1)
    levels: IntArray = 1 + np.round(part * _LEVELS).astype(np.int64)
    return levels
