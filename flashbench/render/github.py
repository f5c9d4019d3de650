"""GitHub Actions: annotations for the log, a summary for the job page.

The commands and their escaping are documented under "Workflow commands for GitHub Actions".
"""

from flashbench.render.escape import MAX_CELL, command_data, command_property
from flashbench.render.markdown import comment
from flashbench.table import NEED_ATTENTION, Cell, Document

SUMMARY_LIMIT = 1024 * 1024  # bytes of a step's summary
_MOST_ANNOTATIONS = 10  # of each kind that GitHub shows per step


def render(document: Document) -> str:
    """Annotations, then the table; used if there is no file for the summary."""
    return f"{annotations(document)}\n{comment(document)}"


def annotations(document: Document) -> str:
    """One command per line: the verdict, then errors for WRONG, SLOWER and NOT MEASURED, and
    warnings for UNDECIDED and SLOWER?. The verdict has the worst kind below it, or is a notice.
    Beyond ten of a kind, the last one stands for the rest."""
    judged = [row for row in document.rows if "verdict" in row and _text(row) in NEED_ATTENTION]
    judged.sort(key=lambda row: NEED_ATTENTION.index(_text(row)))
    kinds = [_kind(row) for row in judged]
    lines = []
    if document.verdict:
        title, _, sentence = document.verdict.partition(": ")
        lines = [
            _command(kinds[0] if kinds else "notice", f"flashbench: {title}", sentence or title)
        ]
    for kind in ("error", "warning"):
        rows = [row for row in judged if _kind(row) == kind]
        most = _MOST_ANNOTATIONS - sum(line.startswith(f"::{kind} ") for line in lines)
        few = rows if len(rows) <= most else rows[: most - 1]
        lines += [_command(kind, f"{_text(row)}: {_name(row)}", _message(row)) for row in few]
        rest = rows[len(few) :]
        if rest:
            names = ", ".join(_both(row) for row in rest[:_MOST_ANNOTATIONS])
            more = ", ..." * (len(rest) > _MOST_ANNOTATIONS)
            title = f"{len(rest)} more cases"
            lines.append(_command(kind, title, f"{names}{more}: see the summary of the step"))
    return "".join(f"{line}\n" for line in lines)


def _kind(row: dict[str, Cell]) -> str:
    return "warning" if _text(row) in ("UNDECIDED", "SLOWER?") else "error"


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={command_property(title)}::{command_data(message)}"


def _text(row: dict[str, Cell]) -> str:
    return row["verdict"].text


def _name(row: dict[str, Cell]) -> str:
    return row["case"].text[:MAX_CELL]


def _both(row: dict[str, Cell]) -> str:
    candidate = row["candidate"].text[:MAX_CELL] if "candidate" in row else ""
    return f"{candidate} on {_name(row)}" if candidate else _name(row)


def _message(row: dict[str, Cell]) -> str:
    parts = [row["candidate"].text[:MAX_CELL]] if "candidate" in row else []
    if "speedup" in row and row["speedup"].value is not None:
        parts.append(f"speed-up {row['speedup'].text}")
    return ": ".join(filter(None, [", ".join(parts), row["reason"].text[:500]]))
