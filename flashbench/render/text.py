"""Plain text for a terminal or a log: no colour, aligned columns, at most 100 wide."""

import textwrap

from flashbench.render.escape import cell, log_line, printable
from flashbench.table import Column, Document

WIDTH = 100


def render(document: Document) -> str:
    """Header, table, notes, footer. A table too wide for the terminal is printed in parts."""
    lines = [line for text in document.header for line in _wrap(text)] + [""]
    shown = [c for c in document.columns if c.shown == "text"]
    if document.rows:
        for part in _parts(document, shown):
            lines += [*_grid(document, part), ""]
    for note in document.notes:
        lines += _wrap(f"{note.code}: {note.message}", hanging="  ")
    lines += [line for text in document.footer for line in _wrap(text)]
    return "\n".join(log_line(line.rstrip()) for line in lines).rstrip("\n") + "\n"


def _wrap(text: str, hanging: str = "") -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, subsequent_indent=hanging) or [""]


def _cells(document: Document, column: Column) -> list[str]:
    return [cell(row[column.key].text) if column.key in row else "" for row in document.rows]


def _width(document: Document, column: Column) -> int:
    return max(map(len, (cell(column.title), *_cells(document, column))))


def _parts(document: Document, columns: list[Column]) -> list[list[Column]]:
    """Split the columns so that each part fits; the naming columns lead every part."""
    names = [c for c in columns if c.key in ("file", "case", "candidate")]
    rest = [c for c in columns if c not in names]
    lead = sum(_width(document, c) + 2 for c in names)
    parts: list[list[Column]] = [[]]
    used = lead
    for column in rest:
        width = _width(document, column) + 2
        if parts[-1] and used + width - 2 > WIDTH:
            parts.append([])
            used = lead
        parts[-1].append(column)
        used += width
    return [[*names, *part] for part in parts]


def _grid(document: Document, columns: list[Column]) -> list[str]:
    widths = [_width(document, column) for column in columns]
    texts = [[cell(column.title), *_cells(document, column)] for column in columns]
    lines = []
    for row in zip(*texts, strict=True):
        padded = [
            text.rjust(width) if column.numeric else text.ljust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        ]
        lines.append("  ".join(padded))
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines
