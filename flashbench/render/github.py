"""GitHub Actions: annotations for the log, a summary for the page of the job.

The commands and their escaping are documented under "Workflow commands for GitHub Actions".
"""

from flashbench.render.escape import MAX_CELL, command_data, command_property
from flashbench.render.markdown import comment
from flashbench.table import ATTENTION, FAILED, Cell, Document

SUMMARY_LIMIT = 1024 * 1024  # bytes of a step's summary
_MOST_ANNOTATIONS = 10  # of each kind that GitHub shows a step


def render(document: Document) -> str:
    """Annotations, then the table; for where there is no file to put the summary into."""
    return f"{annotations(document)}\n{comment(document)}"


def annotations(document: Document) -> str:
    """One command a line: errors for SLOWER and WRONG, warnings for what is not decided or not
    measured, a notice with the verdict. Of more than ten of a kind the last stands for the rest."""
    lines = [_command("notice", "flashbench", document.verdict)] if document.verdict else []
    for kind, outcomes in (("error", FAILED), ("warning", set(ATTENTION) - FAILED)):
        rows = [row for row in document.rows if "verdict" in row and _text(row) in outcomes]
        few = rows if len(rows) <= _MOST_ANNOTATIONS else rows[: _MOST_ANNOTATIONS - 1]
        lines += [_command(kind, _title(row), _message(row)) for row in few]
        rest = rows[len(few) :]
        if rest:
            names = ", ".join(_name(row) for row in rest[:_MOST_ANNOTATIONS])
            more = ", ..." * (len(rest) > _MOST_ANNOTATIONS)
            title = f"{len(rest)} more cases"
            lines.append(_command(kind, title, f"{names}{more}: see the summary of the step"))
    return "".join(f"{line}\n" for line in lines)


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={command_property(title)}::{command_data(message)}"


def _text(row: dict[str, Cell]) -> str:
    return row["verdict"].text


def _name(row: dict[str, Cell]) -> str:
    return row["case"].text[:MAX_CELL]


def _title(row: dict[str, Cell]) -> str:
    return f"{_text(row)}: {_name(row)}"


def _message(row: dict[str, Cell]) -> str:
    parts = [row["candidate"].text[:MAX_CELL]]
    if row["speedup"].value is not None:
        parts.append(f"speed-up {row['speedup'].text}")
    return f"{', '.join(parts)}: {row['reason'].text[:500]}"
