"""Text for a terminal, a log or a file: aligned columns, verdicts in colour where there is one.

A terminal that is too narrow shows the key columns of a table. A table without any is printed in
parts, each repeating the columns that identify its rows. If no other column fits beside those, each
row becomes a block of lines.
"""

import textwrap
from collections.abc import Iterator

from flashbench.render.columns import GAP, PICTURE, ColumnLayout, Texts, layout, taken
from flashbench.render.escape import log_line, printable
from flashbench.render.terminal import PaintedSpan, Terminal, painted
from flashbench.table import Column, Document

_Line = tuple[str, list[PaintedSpan]]


def render(document: Document, terminal: Terminal = Terminal()) -> str:  # noqa: B008 (frozen)
    """Header, table, notes, footer."""
    width = terminal.width
    lines: list[_Line] = [(line, []) for text in document.header for line in _wrap(text, width)]
    lines.append(("", []))
    if document.rows:
        lines += _table(document, layout(document, terminal), width)
    for note in document.notes:
        first, *others = _wrap(f"{note.code}: {note.message}", width, hanging="  ")
        lines += [(first, [(0, len(note.code), note.code)]), *((line, []) for line in others)]
    lines += [(line, []) for text in document.footer for line in _wrap(text, width)]
    return "\n".join(_safe(*line, terminal) for line in lines).rstrip("\n") + "\n"


def _safe(text: str, parts: list[PaintedSpan], terminal: Terminal) -> str:
    plain = text.rstrip()
    escaped = log_line(plain)
    return painted(plain, parts) if terminal.colour and escaped == plain else escaped


def _wrap(text: str, width: int | None, hanging: str = "") -> list[str]:
    if width is None:
        return [printable(text)]
    return textwrap.wrap(printable(text), width, subsequent_indent=hanging) or [""]


def _table(document: Document, chosen: ColumnLayout, width: int | None) -> list[_Line]:
    """The table in as many parts as the width requires, each followed by an empty line."""
    names, rest, texts = chosen.names, chosen.rest, chosen.texts
    if chosen.stacked and taken(rest, texts) + GAP <= (width or 0):
        lines = [*_stacked(document, names, rest, texts, width or 0), ("", [])]
    elif width is None or taken(columns := _ordered(document, chosen), texts) <= width:
        columns = _ordered(document, chosen)
        lines = [*_grid(document, columns, texts), ("", [])]
    elif any(taken([*names, column], texts) > width for column in rest):
        lines = _blocks(names, rest, texts, width)
    else:
        parts = [[*names]]
        for column in rest:
            if taken([*parts[-1], column], texts) > width:
                parts.append([*names])
            parts[-1].append(column)
        lines = [line for part in parts for line in [*_grid(document, part, texts), ("", [])]]
    if chosen.left_out:
        said = f"not shown: {', '.join(chosen.left_out)} (a wider terminal, or --columns)"
        lines += [*((line, []) for line in _wrap(said, width)), ("", [])]
    return lines


def _ordered(document: Document, chosen: ColumnLayout) -> list[Column]:
    """Names and the rest as the document orders them, the picture last."""
    both = [*chosen.names, *chosen.rest]
    return [c for c in document.columns if c in both] + [c for c in both if c is PICTURE]


def _grid(document: Document, columns: list[Column], texts: Texts) -> list[_Line]:
    widths = [max(map(len, texts[column.key])) for column in columns]
    headings = _headings(document)
    lines: list[_Line] = [
        _line(columns, texts, widths, 0, ""),
        ((GAP * " ").join("-" * width for width in widths), []),
    ]
    for place, row in enumerate(document.rows):
        lines += headings.get(place, [])
        verdict = row["verdict"].text if "verdict" in row else ""
        lines.append(_line(columns, texts, widths, place + 1, verdict))
    return lines


def _line(
    columns: list[Column], texts: Texts, widths: list[int], place: int, verdict: str
) -> _Line:
    """verdict: decides the colour of its own column and of the picture."""
    line, parts = "", []
    for column, width in zip(columns, widths, strict=True):
        text = texts[column.key][place]
        start = len(line)
        line += (text.rjust(width) if column.numeric else text.ljust(width)) + GAP * " "
        if verdict and column.key in ("verdict", PICTURE.key):
            parts.append((start, start + len(text), verdict))
    return line.rstrip(), parts


def _headings(document: Document) -> dict[int, list[_Line]]:
    """Headings by the row they precede, with an empty line before all but the first."""
    found: dict[int, list[_Line]] = {}
    place = 0
    for group in document.groups:
        heading: _Line = (printable(group.heading), [])
        found[place] = [("", []), heading] if place else [heading]
        place += group.rows
    return found


def _stacked(
    document: Document, names: list[Column], rest: list[Column], texts: Texts, width: int
) -> Iterator[_Line]:
    """Two lines per row: its identifying cells, then the others."""
    widths = [max(map(len, texts[column.key])) for column in rest]
    headings = _headings(document)
    for place in range(len(document.rows) + 1):
        row = document.rows[place - 1] if place else {}
        verdict = row["verdict"].text if "verdict" in row else ""
        yield from headings.get(place - 1, [])
        for line in _filled([texts[column.key][place] for column in names], width):
            yield line, []
        line, parts = _line(rest, texts, widths, place, verdict)
        yield GAP * " " + line, [(start + GAP, end + GAP, what) for start, end, what in parts]
        if not place:
            longest = max(len(name) for column in names for name in texts[column.key])
            yield "-" * min(max(longest, taken(rest, texts) + GAP), width), []


def _blocks(names: list[Column], rest: list[Column], texts: Texts, width: int) -> list[_Line]:
    """One block per row: its identifying cells, then a line for each other column."""
    longest = max(len(texts[column.key][0]) for column in rest)
    lines = []
    for place in range(1, len(texts[rest[0].key])):
        lines += _filled([texts[column.key][place] for column in names], width)
        for column in rest:
            title, value = texts[column.key][0], texts[column.key][place]
            lines += [f"{GAP * ' '}{title.ljust(longest)}  {value}"] if value else []
        lines.append("")
    return [(line, []) for line in lines]


def _filled(words: list[str], width: int) -> list[str]:
    """Fill as few lines as the width allows, without breaking a word."""
    lines = words[:1]
    for word in words[1:]:
        longer = f"{lines[-1]}{GAP * ' '}{word}"
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(f"{2 * GAP * ' '}{word}")
    return lines
