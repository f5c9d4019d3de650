"""Convert a benchmark's row of an asv result file to and from cells, one per case and candidate."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.other_tools.asv_file import AsvRow
from flashbench.stats.quantile import interval_ranks, launch_quantile

# What we write, in asv's order (asv_result.READ_COLUMNS is what we read back). Columns of cells are
# lists, one entry per cell.
WRITTEN_COLUMNS = (
    "result",
    "params",
    "version",
    "started_at",
    "duration",
    "stats_ci_99_a",
    "stats_ci_99_b",
    "stats_q_25",
    "stats_q_75",
    "stats_number",
    "stats_repeat",
    "stats_p_90",  # ours: asv accepts any stats_* and uses those it knows
    "stats_p_99",
    "samples",
)
_NUMBERS_OF_CELL = [
    name for name in WRITTEN_COLUMNS if name == "result" or name.startswith("stats_")
]
_COUNTS = ("stats_number", "stats_repeat")
_OF_CELL = [*_NUMBERS_OF_CELL, "samples"]
_DIGITS = 9  # more than any clock has

AsvCell = dict[str, Any]  # asv's values for one combination of parameters, by column
Combination = tuple[str, ...]  # a combination as asv writes it: the repr of each value


def measured(samples: FloatArray) -> AsvCell:
    """The cell of these launches. samples: (launches,), at least one, finite.

    Has the median, asv's quartiles, and the order statistics that bound the median with 99 %
    confidence: infinite with fewer than 8 launches, where asv would assume a distribution.
    """
    ordered = np.sort(samples)
    ranks = interval_ranks(len(ordered), 0.5, 0.99)
    low, high = (ordered[ranks[0] - 1], ordered[ranks[1] - 1]) if ranks else (-math.inf, math.inf)
    lower, middle, upper = np.quantile(ordered, (0.25, 0.5, 0.75))
    return {
        "result": _rounded(middle),
        "stats_ci_99_a": _rounded(low),
        "stats_ci_99_b": _rounded(high),
        "stats_q_25": _rounded(lower),
        "stats_q_75": _rounded(upper),
        "stats_number": 1,
        "stats_repeat": len(ordered),
        "samples": [_rounded(value) for value in samples],
    }


FAILED_CELL: AsvCell = {"result": None}
WRONG_CELL: AsvCell = {"result": None}
SKIPPED_CELL: AsvCell = {"result": math.nan}  # asv's word for "not tried"


def percentiles(launches: Sequence[FloatArray]) -> AsvCell:
    """Percentiles over all samples of all launches, each (samples,) in seconds per call; None if
    there are too few samples to tell a percentile from the extremes."""
    found = {f"stats_p_{percent}": launch_quantile(launches, percent / 100) for percent in (90, 99)}
    return {name: None if one is None else _rounded(one.value) for name, one in found.items()}


def cells_of(row: AsvRow) -> dict[Combination, AsvCell]:
    """The cells of a row. Raises ValueError if its lists do not fit its parameters."""
    numbers = row.columns(_NUMBERS_OF_CELL)
    if numbers[0] is None:
        return {}
    listed: dict[str, list[Any] | None] = dict(zip(_NUMBERS_OF_CELL, numbers, strict=True))
    for name in _COUNTS:
        listed[name] = [None if n is None else int(n) for n in listed[name] or ()] or None
    listed["samples"] = row.samples()
    return {
        key: {name: column[index] for name, column in listed.items() if column is not None}
        for index, key in enumerate(itertools.product(*row.params))
    }


def row_of(
    cells: dict[Combination, AsvCell], version: str, started_at: int, duration: float
) -> list[Any]:
    """The row of these cells, in the order of WRITTEN_COLUMNS. Combinations without a cell were
    skipped."""
    params = axes(cells)
    keys = list(itertools.product(*params))
    row: dict[str, Any] = {
        "params": params,
        "version": version,
        "started_at": started_at,
        "duration": duration,
    }
    for name in _OF_CELL:
        row[name] = [cells.get(key, SKIPPED_CELL).get(name) for key in keys]
    return [row[name] for name in WRITTEN_COLUMNS]


def axes(keys: Iterable[Combination]) -> list[list[str]]:
    """The values of each parameter, in order of appearance."""
    return [list(dict.fromkeys(values)) for values in zip(*keys, strict=True)]


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
