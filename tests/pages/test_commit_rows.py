"""A page's numbers, which are formatted at once, are those formatted one by one."""

import math

import numpy as np
import pytest
from markupsafe import escape
from pages.sample import HOSTILE

from flashbench.history.model import Points, Series
from flashbench.site.commit_rows import CommitRows
from flashbench.site.content import Graph, shown
from flashbench.site.number_text import TIME_UNITS, speedup_text, value_text
from flashbench.table import digits

EMPTY = Points(*[np.empty(0)] * 9)
SERIES = [
    Series("box", "env", f"bench {unit}", (("100%", HOSTILE),), unit, EMPTY, ratio=ratio)
    for unit in ("seconds", "", "bytes", f"%s {HOSTILE}", "%d \u202e ")
    for ratio in (None, EMPTY)
]


def _interval(value: float, low: float, high: float, unit: str) -> str:
    """A value and its interval in the unit that suits the value."""
    if math.isnan(low) or math.isnan(high):
        return value_text(value, unit)
    factor, name = 1.0, unit
    if unit == "seconds":
        factor, name = next((one for one in TIME_UNITS if value * one[0] >= 1), TIME_UNITS[-1])
    ends = f"{digits(low * factor)}, {digits(high * factor)}"
    return f"{digits(value * factor)} [{ends}] {name}".rstrip()


def _change(value: float, before: float) -> str:
    if math.isnan(before):
        return ""
    text = f"{100 * (value / before - 1):+.1f}"
    return f"{'0.0' if text[1:] == '0.0' else text} %"


def _row(graph: Graph, numbers: list[float]) -> str:
    value, low, high, ours, control, before = numbers
    unit = graph.series.unit
    judged = (
        _interval(value, low, high, unit)
        if graph.series.ratio is None
        else speedup_text(value, low, high)
    )
    texts = [judged, *("" if math.isnan(one) else value_text(one, unit) for one in (ours, control))]
    cells = "".join(f"<td class=n>{escape(shown(text))}" for text in texts)
    title = escape(shown(graph.title))
    return (
        f'<tr><th scope=row><a href="../graphs.html#graph={graph.id}">{title}</a>{cells}'
        f"<td class=n>{_change(value, before)}\n"
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_rows_are_those_written_one_by_one(seed: int) -> None:
    """Whatever the numbers' sizes, units and titles, at powers of ten, and where some are
    missing."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(SERIES), size=300).astype(np.int32)
    numbers = np.exp(rng.uniform(-40, 40, (6, 300)) * rng.choice([0.02, 0.5, 1], (6, 300)))
    powers = 10.0 ** rng.integers(-12, 14, (6, 300))
    numbers = np.where(rng.random((6, 300)) < 0.2, powers, numbers)
    near = rng.random(300) < 0.5
    numbers[5, near] = numbers[0, near] * (1 + rng.uniform(-0.002, 0.002, near.sum()))
    numbers[1:][rng.random((5, 300)) < 0.2] = np.nan
    graphs = [Graph(one) for one in SERIES]
    made = str(CommitRows(graphs).html(chosen, numbers))
    expected = [_row(graphs[i], one) for i, one in zip(chosen, numbers.T.tolist(), strict=True)]
    assert made.splitlines(keepends=True) == expected
