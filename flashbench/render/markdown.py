"""Markdown for a README or a pull-request comment; nothing in a name becomes markup."""

from flashbench.render.escape import MAX_CELL, markdown, markdown_line
from flashbench.table import Cell, Document


def render(document: Document) -> str:
    """Header, table with every column for readers, notes, footer."""
    lines = [f"{markdown_line(line)}  " for line in document.header]
    columns = [c for c in document.columns if c.shown != "data"]
    if document.rows:
        lines += ["", "| " + " | ".join(markdown(c.title) for c in columns) + " |"]
        lines.append("|" + "|".join("---:" if c.numeric else "---" for c in columns) + "|")
        for row in document.rows:
            cells = [_cell(row, c.key) for c in columns]
            if row.get("verdict") and row["verdict"].value in ("SLOWER", "WRONG"):
                cells = [f"**{cell}**" if cell == row["verdict"].text else cell for cell in cells]
            lines.append("| " + " | ".join(cells) + " |")
    if document.notes:
        lines += ["", *(f"- {markdown(n.code)}: {markdown(n.message)}" for n in document.notes)]
    if document.footer:
        lines += ["", *(f"{markdown_line(line)}  " for line in document.footer)]
    return "\n".join(line if line.strip() else "" for line in lines) + "\n"


def _cell(row: dict[str, Cell], key: str) -> str:
    text = row[key].text if key in row else ""
    return markdown(text[:MAX_CELL])
