"""JSON for programs: the schema of docs/run-file.md, ASCII only, no NaN or Infinity."""

import json

from flashbench.table import Document, Value, significant

SCHEMA = "flashbench-table"
VERSION = 1


def render(document: Document) -> str:
    """One object: schema, version, view, header, rows (every column, null if missing), notes."""
    keys = [column.key for column in document.columns]
    content = {
        "schema": SCHEMA,
        "version": VERSION,
        "view": document.view,
        "header": document.header,
        "rows": [
            {key: significant(row[key].value) if key in row else None for key in keys}
            for row in document.rows
        ],
        "summary": {key: _rounded(value) for key, value in document.summary.items()},
        "notes": [{"code": note.code, "message": note.message} for note in document.notes],
    }
    return json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _rounded(value: Value | dict[str, Value]) -> Value | dict[str, Value]:
    if isinstance(value, dict):
        return {key: significant(inner) for key, inner in value.items()}
    return significant(value)
