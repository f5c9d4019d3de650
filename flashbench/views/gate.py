"""The view of `flashbench gate`: one row per level, with its evidence."""

from collections.abc import Sequence

from flashbench.cost.spent import Spent
from flashbench.gate import Level, LevelState
from flashbench.table import Column, Document, Note, text_cell


def document(title: str, levels: Sequence[Level], spent: Spent) -> Document:
    """One row per level, in order; the next step, and what the gate spent, are below the table."""
    stopped = next((one for one in levels if one.state is not LevelState.PASSED), None)
    answer = f"{stopped.state}: {stopped.name}" if stopped else "PASSED: every level"
    return Document(
        view="gate",
        header=[title],
        columns=[
            Column("case", "level", numeric=False, identifies=True),
            Column("verdict", "outcome", numeric=False),
            Column("reason", "evidence", numeric=False),
            Column("next", "next", "data", numeric=False),
        ],
        rows=[
            {
                "case": text_cell(level.name),
                "verdict": text_cell(level.state.value),
                "reason": text_cell(level.evidence),
                "next": text_cell(level.next),
            }
            for level in levels
        ],
        summary={
            "passed": sum(level.state is LevelState.PASSED for level in levels),
            **spent.summary(),
        },
        footer=[*([spent.line] if spent.line else []), answer],
        notes=[Note("next", stopped.next)] if stopped and stopped.next else [],
        verdict=answer,
    )
