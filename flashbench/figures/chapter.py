"""Chapter: everything that a report shows of one run file."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flashbench import operations
from flashbench.figures import machine_state, memory, methods, roofline, speedups, times
from flashbench.figures.figure import Figure
from flashbench.figures.percentiles import percentiles
from flashbench.outcome import Outcome
from flashbench.report import Report, report_one
from flashbench.runfile import Ceilings, RunFile
from flashbench.table import Document, speedup_cell
from flashbench.verdict import DECIDED, outcome_of
from flashbench.views import frame, speedup
from flashbench.views.arrange import Arrangement, arranged, verdict_first

_OPEN = tuple(outcome.value for outcome in Outcome if outcome not in DECIDED)
_SAID: dict[Outcome | None, str] = {
    Outcome.FASTER: "is faster than",
    Outcome.PERHAPS_FASTER: "is a little faster than",
    Outcome.SAME: "is as fast as",
    Outcome.PERHAPS_SLOWER: "is a little slower than",
    Outcome.SLOWER: "is slower than",
}


@dataclass(frozen=True, slots=True)
class Chapter:
    """name: of the run file; answers: a sentence for each candidate; open: what would decide the
    cases that are not decided; example: a case's name, and the same in words."""

    name: str
    answers: list[str]
    open: list[str]
    example: tuple[str, str]
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
        answers(report) or ["Nothing is judged: times alone."],
        [f"{note.code}: {note.message}" for note in table.notes if note.code in _OPEN],
        (run.cases[0].id, operations.of(run.cases[0]).in_words(run.cases[0])),
        frame.identity(report)[0],
        frame.levels(report),
        figures(report, ceilings),
        _undecided(table),
        verdict_first(table),
        percentiles(report),
        methods.facts(run),
        report,
        methods.paragraph(report, data),
    )


def answers(report: Report) -> list[str]:
    """For each candidate: is it faster, by how much, on how many cases."""
    over, found = speedups.against(report), []
    for name in dict.fromkeys(comparison.candidate for comparison in report.comparisons):
        judged = [one for one in report.judged if one[0].candidate == name]
        outcomes = [verdict.outcome for _, verdict in judged]
        counts = [f"{outcomes.count(one)} {one}" for one in Outcome if one in outcomes]
        cases = f"{len(judged)} case{'s' * (len(judged) != 1)}"
        mean = report.overall.get(name)
        if mean is None:
            found.append(f"{name} has no speed-up over {over}: of {cases} {', '.join(counts)}")
            continue
        bounded = outcome_of(mean, math.log1p(report.tolerance)) if mean.bounded else None
        wrong = outcomes.count(Outcome.WRONG)
        who = f"{name}, WRONG on {wrong} case{'s' * (wrong != 1)}," if wrong else name
        said = f"{who} {_SAID.get(bounded, 'is undecided against')} {over}"
        ratio = speedup_cell(mean).text
        found.append(f"{said}: {ratio} in the geometric mean; of {cases} {', '.join(counts)}")
        slower = [(c.shift.value, c) for c, v in judged if v.outcome is Outcome.SLOWER and c.shift]
        if slower:
            _, worst = min(slower, key=lambda one: one[0])
            found[-1] += f"; worst {worst.case.id}, {speedup_cell(worst.shift).text}"
    return found


def figures(report: Report, ceilings: Sequence[Ceilings]) -> list[Figure]:
    """The figures for which the run file has numbers."""
    (data,) = report.data
    found: list[Figure] = []
    if report.comparisons:
        judged, over = speedups.judged(report), speedups.against(report)
        found.append(speedups.by_shape(judged, over))
    found += [times.scaling(data, "rate"), times.scaling(data, "time")]
    found += [times.distributions(report, data), roofline.of_run(data, ceilings)]
    found += [memory.memory(data), machine_state.machine_state(data.run)]
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
