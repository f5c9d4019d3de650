"""CSV: a header line, every column, ten digits; text cannot become a formula."""

import csv
import io

from flashbench.render.escape import spreadsheet
from flashbench.table import Cell, Document, significant


def render(document: Document) -> str:
    """RFC 4180 with \\n line ends. A missing number is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([spreadsheet(column.key) for column in document.columns])
    for row in document.rows:
        writer.writerow([_value(row.get(column.key)) for column in document.columns])
    return out.getvalue()


def _value(cell: Cell | None) -> str:
    if cell is None or cell.value is None:
        return ""
    value = significant(cell.value)
    return spreadsheet(value) if isinstance(value, str) else repr(value)
