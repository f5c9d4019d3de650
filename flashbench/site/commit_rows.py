"""The rows of a commit's page. A long history has a million of them, so the six numbers of all rows
of a page are formatted at once."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from flashbench.arrays import BoolArray, FloatArray
from flashbench.other_tools.benchmarks import SECONDS
from flashbench.site.content import Graph, shown
from flashbench.site.number_text import TIME_UNITS
from flashbench.table import DIGIT_BOUNDS, DIGIT_FORMATS

# Formats by code: none; as `table.digits`; as `table.ratio_text`; changes in percent.
_FORMATS = ("", *DIGIT_FORMATS, "%.3f", "%.3g", "%+.1f", "0.0")
_FIRST = 1  # code of the first of DIGIT_FORMATS
_NEAR, _FAR, _CHANGED, _SAME = range(_FIRST + len(DIGIT_FORMATS), len(_FORMATS))
_VALUES, _JUDGED, _CHANGE = slice(3, 5), slice(3), 5  # columns
_OWN = 0  # code of a unit that is the graph's own; the others are those of TIME_UNITS, in order
_FACTORS = np.array([1.0] + [factor for factor, _ in TIME_UNITS])
_UNIT_TEXTS = ("", *(f" {name}" for _, name in TIME_UNITS))
_Codes = NDArray[np.uint8]


class CommitRows:
    """The rows of any commit's page: one per graph with a number there."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        series = [graph.series for graph in graphs]
        self._heads = [_head(graph) for graph in graphs]
        self._units = ["" if one.unit == SECONDS else _literal(one.unit, " ") for one in series]
        self._is_ratio = np.array([one.ratio is not None for one in series], dtype=np.bool_)
        self._is_time = np.array([one.unit == SECONDS for one in series], dtype=np.bool_)

    def html(self, graphs: NDArray[np.int32], numbers: FloatArray) -> Markup:
        """The rows of these graphs. numbers: (6, graphs): value, low and high of the judged points,
        our value, the control's, and the value before; NaN if missing."""
        is_ratio, is_time = self._is_ratio[graphs], self._is_time[graphs]
        units = np.zeros((3, len(graphs)), dtype=np.uint8)  # of judged, ours and control
        for unit, values in zip(units, (numbers[0], *numbers[_VALUES]), strict=True):
            unit[is_time] = _suited(values[is_time])
        units[0, is_ratio] = _OWN  # which ratios do not show
        found = numbers * _FACTORS[units[[0, 0, 0, 1, 2, 0]]]
        with np.errstate(all="ignore"):
            found[_CHANGE] = 100 * (numbers[0] / numbers[_CHANGE] - 1)
        codes: _Codes = (_FIRST + np.searchsorted(DIGIT_BOUNDS, found, "right")).astype(np.uint8)
        near = (found[_JUDGED] > 0.01) & (found[_JUDGED] < 100)
        codes[_JUDGED] = np.where(is_ratio, np.where(near, _NEAR, _FAR), codes[_JUDGED])
        codes[_CHANGE] = np.where(np.abs(found[_CHANGE]) < 0.05, _SAME, _CHANGED)
        codes[1:3, np.isnan(numbers[1:3]).any(axis=0)] = 0
        codes[3:][np.isnan(numbers[3:])] = 0
        described = np.concatenate((codes, units)).T.tobytes()
        rows = [described[start : start + 9] for start in range(0, len(described), 9)]
        template = [
            self._heads[graph] + _tail(self._units[graph], ratio, row)
            for graph, ratio, row in zip(graphs.tolist(), is_ratio.tolist(), rows, strict=True)
        ]
        written: BoolArray = (codes != 0) & (codes != _SAME)
        return Markup("".join(template) % tuple(found.T[written.T].tolist()))  # noqa: S704


@cache
def _tail(own_unit: str, is_ratio: bool, described: bytes) -> str:
    """The cells of a row as a template for its numbers. described: their formats and units."""
    value, low, high, ours, control, change = (_FORMATS[code] for code in described[:6])
    judged, mine, theirs = (_UNIT_TEXTS[code] or own_unit for code in described[6:])
    interval = f" [{low}, {high}]" if low else ""
    cells = (
        f"{value}{interval}{'' if is_ratio else judged}",
        ours and f"{ours}{mine}",
        control and f"{control}{theirs}",
        change and f"{change} %%",
    )
    return "".join(f"<td class=n>{cell}" for cell in cells) + "\n"


def _head(graph: Graph) -> str:
    link = f'<a href="../graphs.html#graph={graph.id}">{_literal(graph.title)}</a>'
    return f"<tr><th scope=row>{link}"


def _literal(untrusted: str, before: str = "") -> str:
    """HTML of a text, for a template with %."""
    return str(escape(shown(f"{before}{untrusted}".rstrip()))).replace("%", "%%")


def _suited(seconds: FloatArray) -> _Codes:
    """The first unit in which there is at least one of it, or the last."""
    enough = seconds[:, None] * _FACTORS[1:] >= 1
    enough[:, -1] = True
    unit: _Codes = (1 + enough.argmax(axis=1)).astype(np.uint8)
    return unit
