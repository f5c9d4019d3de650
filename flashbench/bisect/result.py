"""The result of a bisection: the data of its table, and the exit code."""

from dataclasses import dataclass, field
from enum import StrEnum

from flashbench.bisect.question import Purpose, Range
from flashbench.cost.money import DevicePrice
from flashbench.cost.spent import Spent
from flashbench.errors import Exit
from flashbench.revisions.ledger import RevisionOutcome


class Conclusion(StrEnum):
    """FOUND: one commit. HIDDEN: one of several, hidden by broken commits. NONE: nothing broke in
    the range. UNDECIDED: stopped, or too noisy, before it was known."""

    FOUND = "FOUND"
    HIDDEN = "HIDDEN"
    NONE = "NONE"
    UNDECIDED = "UNDECIDED"


CONCLUSION_EXIT_CODES = {
    Conclusion.FOUND: Exit.REGRESSION,
    Conclusion.HIDDEN: Exit.UNDECIDED,
    Conclusion.NONE: Exit.PASS,
    Conclusion.UNDECIDED: Exit.UNDECIDED,
}


@dataclass
class TriedCommit:
    """The evidence on one commit. place: in the range, -1 for the good end; outcome: None if it was
    not tried; launches: log(its time / time of good), one per launch; unmeasured: why one failed.
    """

    place: int
    outcome: RevisionOutcome | None = None
    launches: list[float] = field(default_factory=list)
    probability: float | None = None
    role: str = ""
    unmeasured: str | None = None

    @property
    def status(self) -> str:
        """The outcome's, unless no launch of it succeeded."""
        if self.outcome is None:
            return "not tried"
        return self.outcome.status if self.unmeasured is None else "not measured"

    @property
    def reason(self) -> str:
        """The lines that explain the status."""
        return self.unmeasured or (self.outcome.reason if self.outcome else "")


@dataclass
class Cost:
    """The cost: builds made now, commits tried, and seconds as in `Spent`."""

    commits: int = 0
    builds: int = 0
    build_seconds: float = 0.0
    launches: int = 0
    device_seconds: float = 0.0
    lost_seconds: float = 0.0
    saved_seconds: float = 0.0
    rate: DevicePrice | None = None

    @property
    def spent(self) -> Spent:
        """The account of it."""
        taken = (self.device_seconds, self.lost_seconds, self.saved_seconds, self.build_seconds)
        return Spent(*taken, rate=self.rate)


@dataclass
class BisectResult:
    """answer: one sentence. candidates: places in the range; probability: that the culprit is among
    them, None if the answer is exact. notes: further caveats."""

    range: Range
    purpose: Purpose
    conclusion: Conclusion
    answer: str
    tried: list[TriedCommit]
    cost: Cost
    candidates: tuple[int, ...] = ()
    last: int | None = None
    probability: float | None = None
    case: str = ""
    slowdown: float | None = None
    notes: list[tuple[str, str]] = field(default_factory=list)
