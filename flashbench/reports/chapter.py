"""Chapter: everything that a report shows of one run file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flashbench.report import Report, report_one
from flashbench.reports import course, memory, methods, roofline, speedups, times
from flashbench.reports.figure import Figure
from flashbench.runfile import Ceilings, RunFile
from flashbench.table import Column, Document
from flashbench.verdict import DECIDED, Outcome
from flashbench.views import detail, frame, speedup
from flashbench.views.arrange import Arrangement, arranged, verdict_first

_OPEN = tuple(outcome.value for outcome in Outcome if outcome not in DECIDED)


@dataclass(frozen=True, slots=True)
class Chapter:
    """name: of the run file; answer: one sentence."""

    name: str
    answer: str
    identity: str
    levels: str
    figures: list[Figure]
    undecided: Document | None
    verdicts: Document
    percentiles: Document
    facts: methods.Facts
    report: Report
    methods: str


def chapter(
    name: str,
    run: RunFile,
    ceilings: Sequence[Ceilings] = (),
    *,
    metric: str | None = None,
    against: str = "sdpa",
    tolerance: float = 0.01,
    alpha: float = 0.05,
) -> Chapter:
    """Raises InvalidInputError, e.g. for a metric that the file has not."""
    report = report_one(run, metric=metric, against=against, tolerance=tolerance, alpha=alpha)
    data = report.data[0]
    table = speedup.document(report)
    return Chapter(
        name,
        frame.verdict(report) if report.comparisons else "Nothing is judged: times alone.",
        frame.identity(report)[0],
        frame.levels(report),
        figures(report, ceilings),
        _undecided(table),
        verdict_first(table),
        _percentiles(report),
        methods.facts(run),
        report,
        methods.paragraph(report, data),
    )


def figures(report: Report, ceilings: Sequence[Ceilings]) -> list[Figure]:
    """The figures for which the run file has numbers."""
    (data,) = report.data
    found: list[Figure] = []
    if report.comparisons:
        judged, over = speedups.judged(report), speedups.against(report)
        found += [speedups.overview(judged, over), speedups.by_shape(judged, over)]
    found += [times.scaling(data, "rate"), times.scaling(data, "time")]
    found += [times.distributions(report, data), roofline.of_run(data, ceilings)]
    found += [memory.memory(data), course.course(data.run)]
    return [figure for figure in found if figure.panels]


def _undecided(table: Document) -> Document | None:
    """The undecided comparisons, and what would decide them; None if there are none."""
    if not any(column.key == "verdict" for column in table.columns):
        return None
    columns = ("speedup", "verdict", "launches", "launches_needed", "detectable_percent", "reason")
    found = arranged(table, Arrangement(columns=columns, only=_OPEN, sort="verdict"))
    titles = {"launches_needed": "launches that would decide", "reason": "why"}
    found = replace(
        found,
        header=[],
        footer=[],
        notes=[],
        columns=[replace(c, title=titles.get(c.key, c.title)) for c in found.columns],
    )
    return found if found.rows else None


def _percentiles(report: Report) -> Document:
    """The detail view without columns that other parts of the report have."""
    table = detail.document(report)
    left_out = {"min_us", "max_us", "between_sd_percent", "within_sd_percent"}
    left_out |= {"sample_correlation", "spread_percent", "memory_mb"}

    def kept(column: Column) -> bool:
        return column.key not in left_out

    return replace(table, header=[], notes=[], columns=[*filter(kept, table.columns)])
