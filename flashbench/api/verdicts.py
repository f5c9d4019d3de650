"""Verdicts: a comparison, judged."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flashbench.api.arguments import checked, project_settings
from flashbench.api.shown import Shown, View
from flashbench.comparison import Comparison
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.report import Report
from flashbench.table import Document
from flashbench.verdict import Verdict, exit_code
from flashbench.views import detail, speedup, unmeasured

if TYPE_CHECKING:
    from flashbench.figures.figure import Figure
    from flashbench.other_tools.judge import OtherToolsReport


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """One row. case: an id. outcome: FASTER, SLOWER, FASTER?, SLOWER?, SAME, UNDECIDED, WRONG or
    NOT MEASURED. speedup: a ratio, above 1 is faster, with the ends of its interval; None without
    one. reason: in words, with what would decide an open case."""

    case: str
    candidate: str
    outcome: str
    speedup: float | None
    low: float | None
    high: float | None
    reason: str


class Verdicts(Shown):
    """What a comparison proves, case by case: the gate of `flashbench compare`. Iterates over
    `CaseVerdict`s."""

    def __init__(
        self, report: Report, other_tools: "OtherToolsReport | None" = None, same_build: str = ""
    ) -> None:
        """other_tools: of other tools' files. same_build: both sides, where they are one build that
        need not be measured."""
        if not report.comparisons and not same_build:
            raise NotMeasuredError(
                "nothing to compare: there is no candidate besides the baseline, no baseline, or "
                "no case; table() has what there is"
            )
        self.report = report
        self._other_tools = other_tools
        self._same_build = same_build

    @cached_property
    def rows(self) -> list[CaseVerdict]:
        """One for each candidate and case."""
        return [_row(*judged) for judged in self.report.judged]

    def __iter__(self) -> Iterator[CaseVerdict]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.report.comparisons)

    @checked("compare")
    def exit_code(self, allow: Collection[str] | None = None) -> int:
        """The exit code of `flashbench compare`: 0 pass, 1 SLOWER or WRONG, 3 undecided, 4 not
        measured. allow: "undecided" and "not-measured" let these pass; None: as the settings of
        `flashbench compare` here say."""
        if allow is None:
            allow = project_settings("compare").get("allow", ())
        return Exit.PASS if self._same_build else exit_code(self.report.verdicts, allow)

    @property
    def passed(self) -> bool:
        """Whether no case is slower, wrong, undecided or unmeasured."""
        return self.exit_code([]) == Exit.PASS

    def document(self, view: View = "speedup") -> Document:
        """See `Shown`. Other tools' files have one view."""
        if self._other_tools is not None:
            from flashbench.views.other_tools import document

            return document(self._other_tools)
        if self._same_build:
            return unmeasured.same_build(self._same_build)
        if view == "detail":
            return detail.document(self.report)
        return speedup.document(self.report, gate=True, times=True)

    def figures(self) -> "list[Figure]":
        """See `Shown`."""
        from flashbench.figures import speedups

        if self._other_tools is not None or self._same_build:
            raise InvalidInputError(
                "only measured run files can be drawn; table() has what is here"
            )
        judged, over = speedups.judged(self.report), speedups.against(self.report)
        return [speedups.by_shape(judged, over)] if judged else []

    def __repr__(self) -> str:
        found: dict[str, int] = {}
        for verdict in self.report.verdicts:
            found[verdict.outcome] = found.get(verdict.outcome, 0) + 1
        if self._same_build:
            return f"<Verdicts: {self._same_build}: same build>"
        return f"<Verdicts: {', '.join(f'{count} {word}' for word, count in found.items())}>"


def _row(comparison: Comparison, verdict: Verdict) -> CaseVerdict:
    shift = comparison.shift
    ends = (None, None, None) if shift is None else (shift.value, shift.low, shift.high)
    speedup, low, high = (
        math.exp(end) if end is not None and abs(end) < 700 else None for end in ends
    )
    return CaseVerdict(
        comparison.case.id,
        comparison.candidate,
        verdict.outcome.value,
        speedup,
        low,
        high,
        verdict.full_reason,
    )
