"""Arrange a table on request: filter and sort rows, choose columns, group."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flashbench import operations
from flashbench.errors import InvalidInputError
from flashbench.outcome import Outcome
from flashbench.table import (
    ALONE,
    INTERVALS,
    NEED_ATTENTION,
    Cell,
    Column,
    Document,
    Group,
    Row,
    digits,
    ratio_text,
)

ALL = "all"
_URGENCY = {verdict: place for place, verdict in enumerate(NEED_ATTENTION)}


@dataclass(frozen=True, slots=True)
class Arrangement:
    """columns: keys or headings, or `all`; sort: a column or part of a case, with `-` largest
    first; only: verdicts; group: like sort."""

    columns: Sequence[str] = ()
    sort: str = ""
    only: Sequence[str] = ()
    group: str = ""


def arranged(document: Document, wish: Arrangement) -> Document:
    """The arranged document; totals and exit codes remain those of all rows.

    Raises InvalidInputError for an unknown column.
    """
    if wish.only:
        document = _only(document, wish.only)
    if wish.sort:
        key = wish.sort.removeprefix("-")
        document = _sorted(document, key, descending=wish.sort.startswith("-"), option="--sort")
    if wish.group:
        document = _grouped(document, wish.group)
    return _with_columns(document, wish.columns) if wish.columns else document


def _only(document: Document, verdicts: Sequence[str]) -> Document:
    if not any(column.key == "verdict" for column in document.columns):
        raise InvalidInputError("--only: this table has no verdicts")
    rows = [row for row in document.rows if row["verdict"].text in verdicts]
    left_out = set(Outcome) - set(verdicts)
    notes = [note for note in document.notes if note.code not in left_out]
    said = f"{len(rows)} of {len(document.rows)} rows: those that are {' or '.join(verdicts)}"
    return replace(document, rows=rows, notes=notes, footer=[said, *document.footer])


def _sorted(document: Document, name: str, *, descending: bool, option: str) -> Document:
    read = _reader(document, name, option)
    known = [(read(row), row) for row in document.rows]
    there = [(value, row) for value, row in known if value is not None]
    there.sort(key=lambda pair: _rank(pair[0]), reverse=descending)
    missing = [row for value, row in known if value is None]
    return replace(document, rows=[row for _, row in there] + missing)


def _grouped(document: Document, name: str) -> Document:
    read = _reader(document, name, "--group")
    order: dict[object, list[Row]] = {}
    for row in document.rows:
        order.setdefault(read(row), []).append(row)
    if name == "verdict":
        order = dict(sorted(order.items(), key=lambda pair: _rank(pair[0])))
    groups = [Group(_heading(name, value, rows), len(rows)) for value, rows in order.items()]
    return replace(document, rows=[row for rows in order.values() for row in rows], groups=groups)


def _heading(name: str, value: object, rows: list[Row]) -> str:
    """A group's heading, with the mean speed-up and the verdicts that need attention."""
    said = [f"{len(rows)} row{'s' * (len(rows) != 1)}"]
    ratios = [row["speedup"].value for row in rows if "speedup" in row]
    logs = [math.log(ratio) for ratio in ratios if isinstance(ratio, float) and ratio > 0]
    if logs:
        said.append(f"speed-up {ratio_text(math.exp(math.fsum(logs) / len(logs)))} in the mean")
    urgent = [row["verdict"].text for row in rows if "verdict" in row and name != "verdict"]
    said += [f"{urgent.count(one)} {one}" for one in NEED_ATTENTION if one in urgent]
    text = "-" if value is None else f"{value}"
    return f"{text if isinstance(value, str) else f'{name} {text}'}: {', '.join(said)}"


def _rank(value: object) -> tuple[float, str]:
    """Sort key: verdicts by urgency, numbers by size, text alphabetically."""
    if isinstance(value, str):
        return (float(_URGENCY.get(value, len(_URGENCY))), value)
    return (float(value) if isinstance(value, int | float) else 0.0, "")


def _reader(document: Document, name: str, option: str) -> Callable[[Row], object]:
    column = _find(document, name)
    if column is not None:
        key = column.key
        return lambda row: row[key].value if key in row else None
    known = next(filter(None, map(_parts, document.rows)), operations.PARTS)
    if name not in known:
        raise InvalidInputError(_unknown(option, name, [*known, *_titles(document)]))
    return lambda row: _parts(row).get(name)


def _parts(row: Row) -> dict[str, str | int]:
    """What a row's case can be sorted and grouped by, beside columns."""
    case = operations.read_case(str(row["case"].value)) if "case" in row else None
    return operations.of(case).parts(case) if case else {}  # another tool's benchmark has none


def _with_columns(document: Document, names: Sequence[str]) -> Document:
    visible = [c for c in document.columns if c.shown != "data"]
    chosen = [c for c in visible if c.identifies]
    for name in names:
        found = visible if name.strip().lower() == ALL else [_find(document, name)]
        for column in found:
            if column is None:
                raise InvalidInputError(_unknown("--columns", name, [ALL, *_titles(document)]))
            if column not in chosen:
                chosen.append(column)
    columns = [replace(c, shown="text", title=c.title or c.key) for c in chosen]
    rows = [
        row | {c.key: _legible(row[c.key]) for c in columns if c.key in row}
        for row in document.rows
    ]
    header = [_intervals(line, columns) for line in document.header]
    return replace(document, header=header, columns=columns, rows=rows)


def _intervals(line: str, columns: Sequence[Column]) -> str:
    """A line of the header, which of the intervals names those that hold all together, beside
    columns whose intervals each hold alone. Verdicts and bars are of the former in any table."""
    if not (line.startswith(INTERVALS) and any(c.title.endswith(ALONE) for c in columns)):
        return line
    together = line.removeprefix(INTERVALS)
    if any(column.key.startswith("speedup") for column in columns):
        return f"{INTERVALS}95 % each under {ALONE}, else {together}"
    return f"{INTERVALS}95 % each; of verdicts {together}"


def _legible(cell: Cell) -> Cell:
    """A cell with text, also if it was data for programs only."""
    if cell.text or cell.value is None:
        return cell
    return Cell(
        cell.value, digits(cell.value) if isinstance(cell.value, float) else str(cell.value)
    )


def _find(document: Document, name: str) -> Column | None:
    wanted = name.strip().lower()
    named = [c for c in document.columns if wanted == c.key.lower()]
    named += [c for c in document.columns if c.title and wanted == c.title.lower()]
    return named[0] if named else None


def _titles(document: Document) -> list[str]:
    return [column.key for column in document.columns]


def _unknown(option: str, name: str, known: list[str]) -> str:
    named = name[:60] or "''"
    return f"{option} {named}: this table has no such column; it has {', '.join(known)}"


def verdict_first(table: Document) -> Document:
    """The verdict and the speed-up behind the case, because a page shows only the first columns."""
    first = ("case", "candidate", "verdict", "speedup")
    places = {key: place for place, key in enumerate(first)}
    columns = sorted(table.columns, key=lambda column: places.get(column.key, len(first)))
    return replace(table, columns=columns)
