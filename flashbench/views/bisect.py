"""The view of `flashbench bisect`: the answer, and the evidence on each commit."""

import math

import numpy as np

from flashbench.bisect.result import BisectResult, TriedCommit
from flashbench.builds.missing_symbol import first_line
from flashbench.table import (
    NONE,
    Cell,
    Column,
    Document,
    Note,
    Value,
    count_cell,
    cut_cell,
    name_column,
    text_cell,
)

_SHOWN, _SUBJECT = 12, 34


def document(found: BisectResult) -> Document:
    """One row per commit that was tried or may be the culprit, oldest first."""
    asked = found.range
    speed = found.purpose == "speed"
    header = [
        f"{asked.good.label} to {asked.bad.label}: {asked.graph.size} commits, for {found.purpose}"
    ]
    columns = [
        name_column("commit", "commit"),
        Column("status", "status", numeric=False),
        Column("role", "role", numeric=False),
    ]
    if speed:
        columns += [
            Column("launches", "launches"),
            Column("slower_percent", "slower %"),
            Column("probability", "P %"),
        ]
    columns += [
        Column("subject", "subject", numeric=False),
        Column("reason", "reason", "wide", numeric=False),
        Column("checked", "right on", "data", numeric=False),
    ]
    notes = [Note(code, message) for code, message in found.notes]
    return Document(
        view="bisect",
        header=header,
        columns=columns,
        rows=[_row(found, one) for one in found.tried],
        summary=_summary(found),
        footer=[f"{found.conclusion.value}: {found.answer}", cost_line(found)],
        notes=notes,
        verdict=f"{found.conclusion.value}: {found.answer}",
    )


def cost_line(found: BisectResult) -> str:
    """The cost in one line."""
    cost = found.cost
    parts = [f"{cost.commits} commits tried"]
    parts.append(f"{cost.builds} built now")
    if found.purpose == "speed":
        parts.append(f"{cost.launches} launches")
    return "; ".join(["cost: " + ", ".join(parts), *([cost.spent.line] if cost.spent else [])])


def _row(found: BisectResult, one: TriedCommit) -> dict[str, Cell]:
    if one.place < 0:
        name, subject = found.range.good.commit, found.range.good_subject
    else:
        commit = found.range.commits[one.place]
        name, subject = commit.id, commit.subject
    slower = math.expm1(float(np.mean(one.launches))) if one.launches else None
    return {
        "commit": Cell(name, name[:_SHOWN]),
        "status": text_cell(one.status),
        "role": text_cell(one.role),
        "launches": count_cell(len(one.launches)),
        "slower_percent": NONE if slower is None else Cell(100 * slower, f"{100 * slower:+.2f}"),
        "probability": NONE
        if one.probability is None
        else Cell(one.probability, f"{100 * one.probability:.1f}"),
        "subject": cut_cell(subject, _SUBJECT),
        "reason": Cell(one.reason, first_line(one.reason)),
        "checked": text_cell(one.outcome.checked if one.outcome else ""),
    }


def _summary(found: BisectResult) -> dict[str, Value | dict[str, Value]]:
    asked, cost = found.range, found.cost
    names = [asked.commits[place].id for place in found.candidates]
    each = {one.place: one.probability for one in found.tried}
    worked = None
    if found.purpose != "speed":
        last = found.last
        worked = asked.good.commit if last is None or last < 0 else asked.commits[last].id
    return {
        "purpose": found.purpose,
        "outcome": found.conclusion.value,
        "answer": found.answer,
        "good": asked.good.commit,
        "bad": asked.bad.commit,
        "last_working": worked,
        "culprit": names[0] if len(names) == 1 else None,
        "candidates": {asked.commits[p].id: each.get(p) for p in found.candidates},
        "probability": found.probability,
        "case": found.case or None,
        "slowdown": found.slowdown,
        "commits_tried": cost.commits,
        "builds": cost.builds,
        "launches": cost.launches,
        **cost.spent.summary(),
    }
