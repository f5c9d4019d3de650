"""The view of a comparison that could not, or need not, be measured: one row with the reason, for
readers of reports rather than stderr."""

from flashbench.outcome import Outcome
from flashbench.table import NONE, Column, Document, Note, name_column, text_cell

_SAME_BUILD = (
    "everything importable, Python and libraries, is equal byte for byte, so neither result nor "
    "time can differ: nothing was measured. `flashbench aa` measures this machine's noise on one "
    "build; --even-if-same measures this pair"
)


def failed(what: str, reason: str) -> Document:
    """what: the two sides in the user's words; reason: one line."""
    note = Note(Outcome.NOT_MEASURED.value, f"{what}: {reason}")
    return _document(what, Outcome.NOT_MEASURED, reason, note, f"Not measured: {reason}")


def same_build(what: str) -> Document:
    """Both revisions are one build. what: as in `failed`."""
    reason = f"same build: {_SAME_BUILD}"
    note = Note("same-build", f"{what}: {_SAME_BUILD}")
    return _document(what, Outcome.SAME, reason, note, f"Pass: {what}: same build")


def _document(what: str, outcome: Outcome, reason: str, note: Note, verdict: str) -> Document:
    row = {
        "case": text_cell(what),
        "candidate": text_cell("B"),
        "speedup": NONE,
        "verdict": text_cell(outcome.value),
        "reason": text_cell(reason),
    }
    return Document(
        view="speedup",
        header=[],
        columns=[
            name_column("case", "case"),
            name_column("candidate", "", "data"),
            Column("speedup", "", "data"),
            Column("verdict", "verdict", numeric=False),
            Column("reason", "", "data", numeric=False),
        ],
        rows=[row],
        summary={"comparisons": 0, "same_build": outcome is Outcome.SAME},
        footer=[],
        notes=[note],
        verdict=verdict,
    )
