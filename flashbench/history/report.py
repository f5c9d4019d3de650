"""A history judged: what its changes prove, and the exit code."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from flashbench.errors import Exit
from flashbench.history.changes import FoundChanges
from flashbench.history.model import Change, History, Series
from flashbench.outcome import Outcome
from flashbench.stats.segments import FEWEST
from flashbench.verdict import outcome_of


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """The requested part of a history. series: the chosen ones, in the order of `found.changes`;
    since: indices of commits before the range, whose changes are not shown; label: of the range;
    profiles: differences between profiles, one line each."""

    history: History
    series: Sequence[Series]
    found: FoundChanges
    since: frozenset[int]
    label: str
    tolerance: float
    alpha: float
    profiles: Sequence[str] = ()

    def changes(self, index: int) -> list[Change]:
        """A series' changes that may be in the range."""
        return [
            change for change in self.found.changes[index] or () if change.last not in self.since
        ]

    def outcome(self, change: Change) -> Outcome:
        """The verdict's rule applied to a change."""
        return outcome_of(change.speedup, math.log1p(self.tolerance))

    def regressed(self, index: int) -> bool:
        """Whether a series is slower at the end of the range than at its start, by changes that
        count."""
        changes = [change for change in self.changes(index) if not change.provisional]
        total = sum(change.speedup.value for change in changes)
        slower = any(self.outcome(change) is Outcome.SLOWER for change in changes)
        return slower and total < -math.log1p(self.tolerance)

    @property
    def exit_code(self) -> Exit:
        """REGRESSION if any series regressed."""
        points = [len(one.judged) for one in self.series]
        if not any(points):
            return Exit.NOT_MEASURED
        if any(map(self.regressed, range(len(points)))):
            return Exit.REGRESSION
        return Exit.PASS if max(points) >= FEWEST else Exit.UNDECIDED
