"""The view of a comparison that could not be made: one row with the reason, for those who read
reports rather than stderr."""

from flashbench.table import NONE, Column, Document, Note, text_cell
from flashbench.verdict import Outcome


def document(what: str, reason: str) -> Document:
    """what: the two sides, as the user named them; reason: one line."""
    row = {
        "case": text_cell(what),
        "candidate": text_cell("B"),
        "speedup": NONE,
        "verdict": text_cell(Outcome.NOT_MEASURED.value),
        "reason": text_cell(reason),
    }
    return Document(
        view="speedup",
        header=[],
        columns=[
            Column("case", "case", numeric=False),
            Column("candidate", "", "data", numeric=False),
            Column("speedup", "", "data"),
            Column("verdict", "verdict", numeric=False),
            Column("reason", "", "data", numeric=False),
        ],
        rows=[row],
        summary={"comparisons": 0},
        footer=[],
        notes=[Note(Outcome.NOT_MEASURED.value, f"{what}: {reason}")],
        verdict=f"Not measured: {reason}",
    )
