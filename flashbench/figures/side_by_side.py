"""Several run files side by side: their speed-ups in one figure, their means in one table."""

from collections.abc import Sequence
from dataclasses import dataclass

from flashbench import operations
from flashbench.figures.figure import Data, Figure
from flashbench.figures.speedups import Judged, ends_of, judged, row_panels, table_row, titles_of
from flashbench.outcome import Outcome
from flashbench.report import Report
from flashbench.table import Cell, Column, Document, name_column, speedup_cell, text_cell
from flashbench.views import frame


@dataclass(frozen=True, slots=True)
class SideBySide:
    """means: a row per run file and candidate; figure: cases that two of them have, or None."""

    means: Document
    figure: Figure | None


def side_by_side(reports: Sequence[tuple[str, Report]]) -> SideBySide:
    """Compare run files by name. Their speed-ups are each over their own baseline; only `compare`
    judges one against another."""
    return SideBySide(_means(reports), _figure(reports))


def _means(reports: Sequence[tuple[str, Report]]) -> Document:
    columns = [
        name_column("run", "run file"),
        Column("machine", "machine", numeric=False),
        Column("candidate", "candidate", numeric=False),
        Column("cases", "cases"),
        Column("speedup", "speed-up, geometric mean"),
        *(Column(one.value, one.value) for one in Outcome),
    ]
    rows: list[dict[str, Cell]] = []
    for name, report in reports:
        for candidate, shift in report.overall.items():
            verdicts = [v.outcome for c, v in report.judged if c.candidate == candidate]
            counts = {one.value: verdicts.count(one) for one in Outcome}
            rows.append(
                {
                    "run": text_cell(name),
                    "machine": text_cell(_machine(report)),
                    "candidate": text_cell(candidate),
                    "cases": Cell(len(verdicts), str(len(verdicts))),
                    "speedup": speedup_cell(shift),
                    **{one: Cell(n, str(n)) for one, n in counts.items() if n},
                }
            )
    there = {key for row in rows for key in row}
    columns = [column for column in columns if column.key in there]
    return Document("side-by-side", [], columns, rows, {}, [])


def _machine(report: Report) -> str:
    run = report.data[0].run
    devices = sorted({case.device for case in run.cases})
    return ", ".join(frame.machine_text(run.environment, device) for device in devices)


def _figure(reports: Sequence[tuple[str, Report]]) -> Figure | None:
    found: list[tuple[str, Judged]] = []
    files: dict[str, set[str]] = {}
    for name, report in reports:
        several = len(report.overall) > 1
        for one in judged(report):
            candidate = f", {one.comparison.candidate}" if several else ""
            found.append((f"{name}{candidate} ({_machine(report)})", one))
            files.setdefault(one.case.id, set()).add(name)
    shared = [(name, one) for name, one in found if len(files[one.case.id]) > 1]
    if not shared:
        return None
    series = tuple(dict.fromkeys(name for name, _ in shared))
    groups: dict[tuple[str | int, ...], list[tuple[str, Judged]]] = {}
    for name, one in shared:
        part, _ = operations.of(one.case).shape_panel(one.case)
        groups.setdefault((one.case.device, one.case.dtype, *part), []).append((name, one))
    ends = ends_of([one for _, one in shared])
    panels = []
    for place, members in sorted(groups.items()):
        heading = [*map(str, place[:2]), *titles_of(members[0][1].case)]
        panels += row_panels(heading, members, series, ends)
    data = Data(["run", *table_row(shared[0][1])], [])
    data.rows.extend([name, *table_row(one).values()] for name, one in shared)
    cases = len({one.case.id for _, one in shared})
    against = sorted({one.comparison.pairing.against for _, one in shared})
    return Figure(
        "side-by-side",
        "Speed-up side by side",
        f"The {cases} case{'s' * (cases != 1)} that more than one run file has. Each speed-up is "
        f"over {' or '.join(against)} in the same run file; `flashbench compare A B` judges one "
        "file against another.",
        panels,
        series,
        data,
    )
