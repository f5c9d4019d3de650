"""A table as HTML for a notebook's cell: no script, every text escaped."""

from markupsafe import escape

from flashbench.render.escape import printable
from flashbench.table import FAILED, NONE, Column, Document

_MOST_ROWS = 200  # a notebook keeps what it shows


def html(document: Document) -> str:
    """Header, table with the columns of a wide terminal, notes, footer."""
    columns = [column for column in document.columns if column.shown != "data"]
    head = "".join(f"<th>{_text(column.title)}</th>" for column in columns)
    rows = "".join(
        f"<tr>{''.join(_cell(column, row.get(column.key, NONE).text) for column in columns)}</tr>"
        for row in document.rows[:_MOST_ROWS]
    )
    left = len(document.rows) - _MOST_ROWS
    more = [f"{left} rows more: print(x.table())"] if left > 0 else []
    notes = [f"{note.code}: {note.message}" for note in document.notes]
    answer = f"<p><b>{_text(document.verdict)}</b></p>" if document.verdict else ""
    return (
        f"<div>{answer}{_lines(document.header)}<table><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{_lines([*more, *notes, *document.footer])}</div>"
    )


def _cell(column: Column, text: str) -> str:
    style = f"text-align: {'right' if column.numeric else 'left'}"
    if text in FAILED:
        style += "; font-weight: bold"
    return f'<td style="{style}">{_text(text)}</td>'


def _lines(lines: list[str]) -> str:
    return f"<p>{'<br>'.join(map(_text, lines))}</p>" if lines else ""


def _text(text: str) -> str:
    return str(escape(printable(text)))
