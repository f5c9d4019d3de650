"""CSV: a header line, every column, ten digits; text cannot become a formula."""

import csv
import io
from collections.abc import Iterable, Sequence

from flashbench.render.escape import spreadsheet
from flashbench.table import NONE, Document, Value, significant


def render(document: Document) -> str:
    """RFC 4180 with \\n line ends. A missing number is an empty cell."""
    keys = [column.key for column in document.columns]
    return table(keys, ([row.get(key, NONE).value for key in keys] for row in document.rows))


def table(columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> str:
    """The same of names and values."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(spreadsheet, columns))
    writer.writerows(map(_cell, row) for row in rows)
    return out.getvalue()


def _cell(value: Value) -> str:
    if value is None:
        return ""
    plain = significant(value)
    return spreadsheet(plain) if isinstance(plain, str) else repr(plain)
