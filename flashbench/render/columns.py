"""Which columns of a table a terminal has room for, and how wide the picture beside them is."""

from dataclasses import dataclass
from itertools import groupby

from flashbench.render import bars
from flashbench.render.escape import cell, printable
from flashbench.render.terminal import ASCII, UNICODE, Terminal
from flashbench.table import Column, Document

GAP = 2  # spaces between columns
WIDE = 120  # columns of a terminal where a gate draws its intervals unasked
_LEAST_ASKED = 16  # characters of bars that were asked for
_IN_A_FILE = 40

_ASCII = str.maketrans("▁▂▃▄▅▆▇█", ".:-=+*#@")
PICTURE = Column("picture", "", "key", numeric=False)
Texts = dict[str, list[str]]  # of each column its title and cells


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """names: columns that identify rows; rest: beside them, or below if `stacked`; left_out:
    titles of columns without room."""

    names: list[Column]
    rest: list[Column]
    texts: Texts
    stacked: bool = False
    left_out: tuple[str, ...] = ()


def layout(document: Document, terminal: Terminal) -> ColumnLayout:
    """Names and what is shown on any terminal first, then the others while they fit."""
    columns = [c for c in document.columns if c.shown != "data"]
    texts = _texts(document, columns, unicode=terminal.unicode)
    width = terminal.width
    names = [c for c in columns if c.identifies]
    keys = [c for c in columns if c.shown == "key" and not c.identifies]
    usual = [c for c in columns if c.shown in ("key", "text")]
    if width is None or not keys:
        room = _IN_A_FILE if width is None else width - taken(usual, texts) - GAP
        drawn = terminal.plot and room >= _LEAST_ASKED
        picture = _picture(document, texts, room, terminal) if drawn else []
        rest = [*(c for c in usual if not c.identifies), *picture]
        return ColumnLayout(names, rest, texts, left_out=_no_bars(document, terminal, picture))
    least = bars.LEAST if terminal.plot is None else _LEAST_ASKED
    wanted = terminal.plot or (terminal.plot is None and width >= WIDE)
    beside = taken([*names, *keys], texts)
    if beside > width or (terminal.plot and beside + GAP + least > width):
        room = width - 2 * GAP - taken(keys, texts)
        picture = _picture(document, texts, room, terminal) if wanted and room >= least else []
        left_out = _left_out(usual, keys) + _no_bars(document, terminal, picture)
        return ColumnLayout(names, [*keys, *picture], texts, True, left_out)
    drawn = wanted and _has_intervals(document) and beside + GAP + least <= width
    chosen = {c.key for c in (*names, *keys)}
    others = [c for c in usual if c.key not in chosen]
    others += [c for c in columns if c.shown == "wide"]
    for _, alike in groupby(others, key=lambda c: c.together or c.key):
        pair = list(alike)
        trial = [c for c in columns if c.key in chosen or c in pair]
        reserve = bars.BEST if pair[0].shown == "wide" else min(bars.LEAST, width - beside - GAP)
        if taken(trial, texts) + drawn * (GAP + reserve) > width:
            break
        chosen |= {c.key for c in pair}
    shown = [c for c in columns if c.key in chosen]
    room = width - taken(shown, texts) - GAP
    picture = _picture(document, texts, room, terminal) if drawn else []
    rest = [*(c for c in shown if not c.identifies), *picture]
    return ColumnLayout(names, rest, texts, left_out=_left_out(usual, shown))


def taken(columns: list[Column], texts: Texts) -> int:
    """Characters of a line of these columns."""
    return sum(max(map(len, texts[c.key])) + GAP for c in columns) - GAP


def _left_out(usual: list[Column], shown: list[Column]) -> tuple[str, ...]:
    return tuple(c.title for c in usual if c not in shown and not c.identifies)


def _no_bars(document: Document, terminal: Terminal, picture: list[Column]) -> tuple[str, ...]:
    """The name of the picture, if it was asked for in vain."""
    return ("bars",) if terminal.plot and not picture and _has_intervals(document) else ()


def _texts(document: Document, columns: list[Column], *, unicode: bool) -> Texts:
    found = {}
    for column in columns:
        values = [row[column.key].text if column.key in row else "" for row in document.rows]
        cut = [cell(value if unicode else value.translate(_ASCII)) for value in values]
        if column.identifies and len(set(cut)) < len(set(values)):
            cut = [printable(value) for value in values]  # the omitted part distinguished them
        found[column.key] = [cell(column.title), *cut]
    return found


def _has_intervals(document: Document) -> bool:
    return any(row.get("speedup_low") for row in document.rows)


def _picture(document: Document, texts: Texts, room: int, terminal: Terminal) -> list[Column]:
    """The column of bars, whose texts it adds; none without intervals."""
    if not _has_intervals(document):
        return []
    intervals = []
    for row in document.rows:
        value, low, high = (
            row[key].value if key in row else None
            for key in ("speedup", "speedup_low", "speedup_high")
        )
        ends = (end if isinstance(end, float) else None for end in (low, high))
        intervals.append(bars.Interval(value, *ends) if isinstance(value, float) else None)
    width = min(room, bars.MOST)
    scale, drawn = bars.bars(intervals, width, UNICODE if terminal.unicode else ASCII)
    texts[PICTURE.key] = [scale, *drawn]
    return [PICTURE]
