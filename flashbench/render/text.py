"""Plain text for a terminal or a log: no colour, aligned columns.

A table wider than the terminal is printed in parts, each repeating the columns that identify its
rows. If no other column fits beside those, each row becomes a block of lines.
"""

import textwrap

from flashbench.render.escape import cell, log_line, printable
from flashbench.table import Column, Document

_GAP = 2  # spaces between columns

Texts = dict[str, list[str]]  # title and cells of each column


def render(document: Document, width: int | None = None) -> str:
    """Header, table, notes, footer. width: of the terminal; None for a file or a program: wraps and
    splits nothing."""
    lines = [line for text in document.header for line in _wrap(text, width)] + [""]
    columns = [c for c in document.columns if c.shown == "text"]
    if document.rows:
        lines += _table(columns, _texts(document, columns), width)
    for note in document.notes:
        lines += _wrap(f"{note.code}: {note.message}", width, hanging="  ")
    lines += [line for text in document.footer for line in _wrap(text, width)]
    return "\n".join(log_line(line.rstrip()) for line in lines).rstrip("\n") + "\n"


def _wrap(text: str, width: int | None, hanging: str = "") -> list[str]:
    if width is None:
        return [printable(text)]
    return textwrap.wrap(printable(text), width, subsequent_indent=hanging) or [""]


def _texts(document: Document, columns: list[Column]) -> Texts:
    found = {}
    for column in columns:
        values = [row[column.key].text if column.key in row else "" for row in document.rows]
        cut = [cell(value) for value in values]
        if column.identifies and len(set(cut)) < len(set(values)):
            cut = [printable(value) for value in values]  # the omitted part distinguished them
        found[column.key] = [cell(column.title), *cut]
    return found


def _table(columns: list[Column], texts: Texts, width: int | None) -> list[str]:
    """The table in as many parts as the width requires, each followed by an empty line."""
    names = [c for c in columns if c.identifies]
    rest = [c for c in columns if not c.identifies]
    if width is None or _width(columns, texts) <= width:
        return [*_grid(columns, texts), ""]
    if any(_width([*names, column], texts) > width for column in rest):
        return _blocks(names, rest, texts, width)
    parts = [[*names]]
    for column in rest:
        if _width([*parts[-1], column], texts) > width:
            parts.append([*names])
        parts[-1].append(column)
    return [line for part in parts for line in [*_grid(part, texts), ""]]


def _width(columns: list[Column], texts: Texts) -> int:
    return sum(max(map(len, texts[c.key])) + _GAP for c in columns) - _GAP


def _grid(columns: list[Column], texts: Texts) -> list[str]:
    widths = [max(map(len, texts[column.key])) for column in columns]
    lines = []
    for row in zip(*(texts[column.key] for column in columns), strict=True):
        padded = [
            text.rjust(width) if column.numeric else text.ljust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        ]
        lines.append((_GAP * " ").join(padded))
    lines.insert(1, (_GAP * " ").join("-" * width for width in widths))
    return lines


def _blocks(names: list[Column], rest: list[Column], texts: Texts, width: int) -> list[str]:
    """One block per row: its identifying cells, then a line for each other column."""
    longest = max(len(texts[column.key][0]) for column in rest)
    lines = []
    for place in range(1, len(texts[rest[0].key])):
        lines += _filled([texts[column.key][place] for column in names], width)
        for column in rest:
            title, value = texts[column.key][0], texts[column.key][place]
            lines += [f"{_GAP * ' '}{title.ljust(longest)}  {value}"] if value else []
        lines.append("")
    return lines


def _filled(words: list[str], width: int) -> list[str]:
    """Fill as few lines as the width allows, without breaking a word."""
    lines = words[:1]
    for word in words[1:]:
        longer = f"{lines[-1]}{_GAP * ' '}{word}"
        if len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(f"{2 * _GAP * ' '}{word}")
    return lines
