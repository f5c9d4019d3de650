"""Markdown for a README or a pull-request comment; nothing in a name becomes markup.

A table without a verdict (`show`) is written whole. One with a verdict (`compare`) answers at a
glance: the verdict first, then the rows that need attention, the others folded.
"""

from flashbench.render.escape import MAX_CELL, markdown, markdown_line
from flashbench.table import FAILED, NEED_ATTENTION, Column, Document, Row

COMMENT_LIMIT = 65_536  # GitHub's limit for a comment, in characters; we count bytes
MANY_ROWS = 20  # more rows than this are folded
_MOST_OUTSIDE = 50  # rows and notes left unfolded
_MAX_LINE = 500  # characters of a header, note or footer of a comment
_RESERVE = 500  # bytes for the fold's markup and the line on what was left out


def render(document: Document) -> str:
    """Header, table with every column for readers, notes, footer; with a verdict, a comment."""
    if document.verdict:
        return comment(document)
    columns = _shown(document)
    lines = [f"{markdown_line(line)}  " for line in document.header]
    if document.rows:
        lines += ["", *_heading(columns), *_rows(document, columns)]
    if document.notes:
        lines += ["", *(f"- {markdown(n.code)}: {markdown(n.message)}" for n in document.notes)]
    if document.footer:
        lines += ["", *(f"{markdown_line(line)}  " for line in document.footer)]
    return _joined(lines)


def comment(document: Document, limit: int = COMMENT_LIMIT) -> str:
    """The document in at most `limit` bytes, most important lines first, with a count of the
    rest."""
    columns = _shown(document)
    outside, folded = _split(document.rows)
    notes = [f"- {markdown(n.code)}: {markdown(_cut(n.message))}" for n in document.notes]
    room = _Room(limit - _RESERVE)
    # In order of importance, not of the page.
    verdict = room.take([f"**{markdown(_cut(document.verdict))}**"] if document.verdict else [])
    header = room.take([f"{markdown_line(_cut(line))}  " for line in document.header])
    footer = room.take([f"{markdown_line(_cut(line))}  " for line in document.footer])
    table = room.take_table(_heading(columns), [_row(row, columns) for row in outside])
    open_notes = room.take(notes[:_MOST_OUTSIDE])
    fold = room.take_table(_heading(columns), [_row(row, columns) for row in folded])
    folded_notes = room.take(notes[_MOST_OUTSIDE:])
    lines = []
    for part in (verdict, header, table, open_notes, footer):
        lines += [*part, ""] if part else []
    if fold or folded_notes:
        title = f"{len(folded)} {'more ' * bool(outside)}rows"
        lines += [f"<details><summary>{title}</summary>", "", *fold, "", *folded_notes]
        lines += ["", "</details>", ""]
    if room.left_out:
        lines.append(
            f"{room.left_out} lines were left out to stay within {limit} bytes; "
            "`--format csv` has every row"
        )
    return _joined(lines)


def _rows(document: Document, columns: list[Column]) -> list[str]:
    """All rows, a line with its heading above each group."""
    rows = [_row(row, columns) for row in document.rows]
    if not document.groups:
        return rows
    lines, place = [], 0
    for group in document.groups:
        empty = " |" * (len(columns) - 1)
        lines += [f"| **{markdown(group.heading)}** |{empty}"]
        lines += rows[place : place + group.rows]
        place += group.rows
    return lines


class _Room:
    """Counts the bytes left and the lines left out."""

    def __init__(self, bytes_left: int) -> None:
        self._bytes_left = bytes_left
        self.left_out = 0

    def take(self, lines: list[str]) -> list[str]:
        """The first of these lines, as many as fit."""
        for index, line in enumerate(lines):
            size = len(line.encode()) + 2  # with its newline and that of a blank line
            if size > self._bytes_left:
                self.left_out += len(lines) - index
                return lines[:index]
            self._bytes_left -= size
        return lines

    def take_table(self, heading: list[str], rows: list[str]) -> list[str]:
        """A table with as many rows as fit, or nothing at all."""
        if not rows:
            return []
        size = sum(len(line.encode()) + 2 for line in (*heading, rows[0]))
        if size > self._bytes_left:
            self.left_out += len(rows)
            return []
        return self.take([*heading, *rows])


def _split(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Rows to show and rows to fold; a long table shows only the rows that need attention."""
    if len(rows) <= MANY_ROWS:
        return rows, []
    ranks = {outcome: rank for rank, outcome in enumerate(NEED_ATTENTION)}
    chosen = sorted(
        (index for index, row in enumerate(rows) if _verdict(row) in ranks),
        key=lambda index: ranks[_verdict(rows[index])],
    )[:_MOST_OUTSIDE]
    kept = set(chosen)
    folded = [row for index, row in enumerate(rows) if index not in kept]
    return [rows[index] for index in chosen], folded


def _verdict(row: Row) -> str:
    return row["verdict"].text if "verdict" in row else ""


def _shown(document: Document) -> list[Column]:
    return [column for column in document.columns if column.shown != "data"]


def _heading(columns: list[Column]) -> list[str]:
    titles = (markdown(column.title[:MAX_CELL]) for column in columns)
    rule = "|".join("---:" if column.numeric else "---" for column in columns)
    return ["| " + " | ".join(titles) + " |", f"|{rule}|"]


def _row(row: Row, columns: list[Column]) -> str:
    cells = [markdown(_cell_text(row[c.key].text, c)) if c.key in row else "" for c in columns]
    if _verdict(row) in FAILED:
        cells = [
            f"**{cell}**" if column.key == "verdict" else cell
            for cell, column in zip(cells, columns, strict=True)
        ]
    return "| " + " | ".join(cells) + " |"


def _cell_text(text: str, column: Column) -> str:
    """Cut long text; in identifying columns only where no reader would see the difference."""
    return text[: _MAX_LINE if column.identifies else MAX_CELL]


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LINE else text[: _MAX_LINE - 3] + "..."


def _joined(lines: list[str]) -> str:
    return "\n".join(line if line.strip() else "" for line in lines).rstrip("\n") + "\n"
