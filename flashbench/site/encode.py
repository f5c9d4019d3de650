"""Encode data as JavaScript files: a page opened from disk can load scripts, but cannot fetch.

Each file is a call with one JSON value. Text is untrusted: bytes that HTML or JavaScript could
misinterpret are escaped, although the files contain only data.
"""

import hashlib
import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from flashbench.arrays import FloatArray
from flashbench.history.model import Points, Series
from flashbench.site.case_names import baseline_of
from flashbench.site.content import CONFIDENCE, Graph, shown, speedup
from flashbench.site.templating import maker_key
from flashbench.table import percentage

BLOCK = 256  # commits; a new one changes no data of earlier blocks
DIGITS = 5  # significant digits of a typical value of a series: far below any noise
_LISTS_END = 2**53  # the largest integer that JavaScript counts exactly
_ESCAPES = {b"<": b"\\u003c", b">": b"\\u003e", b"&": b"\\u0026"}
_SEPARATORS = {b"\xe2\x80\xa8": b"\\u2028", b"\xe2\x80\xa9": b"\\u2029"}
_COLUMNS = {"v": "value", "lo": "low", "hi": "high", "q25": "q25", "q75": "q75"}
_COLUMNS |= {"p90": "p90", "p99": "p99"}


def script(function: str, value: Any) -> bytes:
    """`function(value);`, safe as a file and inside a <script> element."""
    text = msgspec.json.encode(value)
    escapes = _ESCAPES if text.isascii() else _ESCAPES | _SEPARATORS
    for raw, escaped in escapes.items():
        text = text.replace(raw, escaped)
    return b"%s(%s);\n" % (function.encode(), text)


def parts(graph: Graph, commits: int) -> dict[str, Graph]:
    """The graph by the folder of its data: the newest block of commits, and if there are earlier
    points those before it. commits: of the history."""
    start = commits // BLOCK * BLOCK
    earlier = _between(graph.series, 0, start)
    if not len(earlier.points):
        return {"graphs": graph}
    newest = replace(graph, series=_between(graph.series, start, commits), continues=True)
    return {"earlier": Graph(replace(earlier, failed=earlier.failed[:0])), "graphs": newest}


def _between(series: Series, start: int, end: int) -> Series:
    lines = {"points": series.points, "control": series.control, "ratio": series.ratio}
    cut: dict[str, Any] = {}
    for name, line in lines.items():
        if line is not None:
            first, last = np.searchsorted(line.commit, (start, end))
            cut[name] = line[first:last]
    if series.ratio is series.points:
        cut["ratio"] = cut["points"]
    return replace(series, **cut)


def graph_data(graph: Graph) -> dict[str, Any]:
    """The viewer's data. Values are integer multiples of a line's `scale`, null if missing."""
    one = graph.series
    name = shown(one.candidate or one.name)
    lines = []
    if one.points is not one.ratio:  # a mean is only a ratio
        lines.append(_line("time", name, one.unit, one.points))
    if one.control is not None:
        lines.append(_line("control", baseline_of(one.case) or "baseline", one.unit, one.control))
    if one.ratio is not None:
        lines.append(_line("speedup", name, "", speedup(one.ratio)))
    return {
        "id": graph.id,
        "continues": graph.continues,
        "interval": f"{percentage(CONFIDENCE)} interval of the median",
        "lines": lines,
        "failed": one.failed.tolist(),
        "changes": [
            {
                "at": change.commit,
                "first": change.first,
                "last": change.last,
                "speedup": [
                    _ratio(end)
                    for end in (change.speedup.value, change.speedup.low, change.speedup.high)
                ],
                "hidden": [gap.commit for gap in change.hidden],
                "provisional": change.provisional,
            }
            for change in graph.changes
        ],
        "jumps": [
            {"at": one.commit, "speedup": float(f"{one.speedup:.6g}")} for one in graph.jumps
        ],
    }


def graph_key(graph: Graph) -> str:
    """A key that changes whenever anything drawn in the graph does."""
    one = graph.series
    digest = hashlib.blake2b(maker_key().encode(), digest_size=16)
    digest.update(repr((graph.continues, graph.id, one.name, one.candidate)).encode())
    digest.update(repr((one.unit, graph.changes, graph.jumps)).encode())
    digest.update(one.failed.tobytes())
    for points in (one.points, one.control, one.ratio):
        digest.update(b"|")
        if points is not None:
            digest.update(np.ascontiguousarray(points.commit).data)
            for key, name in _COLUMNS.items():
                column = getattr(points, name)
                if np.isfinite(column).any():
                    digest.update(key.encode())
                    digest.update(np.ascontiguousarray(column).data)
    return digest.hexdigest()


def _line(role: str, name: str, unit: str, points: Points) -> dict[str, Any]:
    scale = _scale(points.value)
    made: dict[str, Any] = {"role": role, "name": name, "unit": shown(unit), "scale": scale}
    made["x"] = points.commit.tolist()
    columns = np.array([getattr(points, attribute) for attribute in _COLUMNS.values()])
    known = np.isfinite(columns).any(axis=1).tolist()
    keys = [key for key, is_known in zip(_COLUMNS, known, strict=True) if is_known]
    return made | dict(zip(keys, _multiples(columns[known], scale), strict=True))


def _scale(values: FloatArray) -> float:
    """The power of ten whose multiples give the typical value DIGITS digits."""
    finite = np.abs(values[np.isfinite(values) & (values != 0)])
    if not len(finite):
        return 1.0
    exponent = math.floor(math.log10(float(np.median(finite))))
    return float(f"1e{max(-300, exponent - DIGITS + 1)}")


def _multiples(columns: FloatArray, scale: float) -> list[list[int | None]]:
    """As multiples of `scale`; columns: (columns, points)."""
    with np.errstate(all="ignore"):
        counts = np.round(columns / scale)
    good = np.isfinite(counts) & (np.abs(counts) < _LISTS_END)
    whole: list[list[int | None]] = np.where(good, counts, 0).astype(np.int64).tolist()
    for column, index in np.argwhere(~good):
        whole[column][index] = None
    return whole


def _ratio(log: float) -> float | None:
    return float(f"{math.exp(log):.6g}") if abs(log) < 700 else None
