"""The view of `flashbench build` and `flashbench builds`: the outcome of each commit, and why."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flashbench.builds.diagnosis import STATUSES
from flashbench.builds.missing_symbol import first_line
from flashbench.revisions import WORKTREE, Built
from flashbench.revisions.ledger import RevisionOutcome
from flashbench.table import NONE, Cell, Column, Document, Note, cut_cell, name_column, text_cell
from flashbench.views import frame

NOT_TRIED = "not tried"
_SHOWN = 12  # digits of a commit
_SUBJECT = 44  # characters
_OF_TRIED = ("checked", "seconds", "build", "reason", "right_on", "toolchain", "tried")


@dataclass(frozen=True)
class BuildRow:
    """One revision. label: its name for readers; outcome: None if nothing is known; is_current:
    whether it was tried with the current toolchain."""

    label: str
    subject: str
    outcome: RevisionOutcome | None
    is_current: bool = True


def document(title: str, rows: Sequence[BuildRow], footer: Sequence[str] = ()) -> Document:
    """One row per revision, in the given order; each reason appears once, below."""
    counts = Counter(row.outcome.status if row.outcome else NOT_TRIED for row in rows)
    order = [name for name in (*STATUSES, NOT_TRIED) if counts[name]]
    return Document(
        view="builds",
        header=[title] if rows else [title, "none"],
        columns=[
            name_column("commit", "commit"),
            Column("status", "status", numeric=False),
            Column("checked", "stage", numeric=False),
            Column("seconds", "build s"),
            Column("build", "build", "wide", numeric=False),
            Column("subject", "subject", numeric=False),
            Column("reason", "reason", "wide", numeric=False),
            Column("right_on", "right on", "wide", numeric=False),
            Column("toolchain", "toolchain", "data", numeric=False),
            Column("tried", "", "data", numeric=False),
        ],
        rows=[_row(row) for row in rows],
        summary={"revisions": len(rows), "statuses": {name: counts[name] for name in order}},
        footer=[", ".join(f"{name} {counts[name]}" for name in order), *footer] if rows else [],
        notes=_notes(rows),
    )


def row_of(built: Built, subjects: Mapping[str, str]) -> BuildRow:
    """The row of a newly prepared revision. subjects: of commits, by full hash."""
    revision = built.revision
    if revision.worktree:
        return BuildRow(WORKTREE, f"on {revision.commit[:_SHOWN]}", built.outcome)
    return BuildRow(revision.commit, subjects.get(revision.commit, ""), built.outcome)


def _row(row: BuildRow) -> dict[str, Cell]:
    cells = {
        "commit": Cell(row.label, row.label[:_SHOWN]),
        "subject": cut_cell(row.subject, _SUBJECT),
    }
    outcome = row.outcome
    if outcome is None:
        return cells | dict.fromkeys(_OF_TRIED, NONE) | {"status": text_cell(NOT_TRIED)}
    return cells | {
        "status": text_cell(outcome.status),
        "checked": text_cell(outcome.stage),
        "seconds": Cell(outcome.seconds, f"{outcome.seconds:.1f}"),
        "build": Cell(outcome.build, outcome.build[:_SHOWN]),
        "reason": Cell(outcome.reason, first_line(outcome.reason)),
        "right_on": text_cell(outcome.checked),
        "toolchain": text_cell("this one" if row.is_current else "another one"),
        "tried": text_cell(outcome.when),
    }


def _notes(rows: Sequence[BuildRow]) -> list[Note]:
    """Each reason once, with its first commit; then missing parts of commits, and stale
    outcomes."""
    labels: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.outcome is not None and row.outcome.status != "built":
            reason = first_line(row.outcome.reason)
            labels.setdefault((row.outcome.status, reason), []).append(row.label[:_SHOWN])
        for note in row.outcome.notes if row.outcome else ():
            labels.setdefault(("lacks", note), []).append(row.label[:_SHOWN])
    found = [
        Note(code, f"{names[0]}{frame.more(names)}: {reason}")
        for (code, reason), names in labels.items()
    ]
    found += _of_checks([row.outcome for row in rows if row.outcome is not None])
    old = sum(row.outcome is not None and not row.is_current for row in rows)
    if old:
        found.append(
            Note(
                "toolchain",
                f"{old} were tried with another toolchain; run `flashbench build` again",
            )
        )
    return found


def _of_checks(known: Sequence[RevisionOutcome]) -> list[Note]:
    """The cases with correct results, and what is unknown about them."""
    right = [
        outcome for outcome in known if outcome.stage == "correct" and outcome.status == "built"
    ]
    found = [
        Note("right-on", f"{count} of {len(known)}: {cases}")
        for cases, count in Counter(outcome.checked for outcome in right if outcome.checked).items()
    ]
    if unknown := sum(not outcome.checked for outcome in right):
        found.append(
            Note(
                "not-told",
                f"{unknown} were checked by an older flashbench, which counted refusing every case "
                "as correct; run `flashbench build` again",
            )
        )
    if unchecked := sum(outcome.status == "unchecked" for outcome in known):
        found.append(
            Note(
                "unchecked",
                f"{unchecked} refuse every case that was tried: name a supported one with "
                "`flashbench build --case`, or check only --for load",
            )
        )
    return found
