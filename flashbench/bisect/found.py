"""What a bisection found: what its table is made of, and what the shell is told."""

from dataclasses import dataclass, field
from enum import StrEnum

from flashbench.bisect.question import Purpose, Range
from flashbench.cost.money import DevicePrice
from flashbench.cost.spent import Spent
from flashbench.errors import Exit


class Conclusion(StrEnum):
    """FOUND: one commit. HIDDEN: it is among several that broken commits hide. NONE: nothing broke
    in the range. UNDECIDED: stopped, or noise, before it was known."""

    FOUND = "FOUND"
    HIDDEN = "HIDDEN"
    NONE = "NONE"
    UNDECIDED = "UNDECIDED"


EXIT_CODES = {
    Conclusion.FOUND: Exit.REGRESSION,
    Conclusion.HIDDEN: Exit.UNDECIDED,
    Conclusion.NONE: Exit.PASS,
    Conclusion.UNDECIDED: Exit.UNDECIDED,
}


@dataclass
class TriedCommit:
    """What is known of one commit. place: in the range, -1 the good end; launches: log(time of it /
    time of good), one a launch; checked: the cases on which it is right."""

    place: int
    status: str = ""
    reason: str = ""
    launches: list[float] = field(default_factory=list)
    probability: float | None = None
    role: str = ""
    checked: str = ""


@dataclass
class Cost:
    """What it took: builds made now, of how many commits tried, and seconds as of `Spent`."""

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
        return Spent(*taken, self.rate)


@dataclass
class Found:
    """answer: one sentence. candidates: places in the range; probability: that the culprit is among
    them, None where the answer is exact. notes: what one has to know besides."""

    range: Range
    purpose: Purpose
    outcome: Conclusion
    answer: str
    tried: list[TriedCommit]
    cost: Cost
    candidates: tuple[int, ...] = ()
    last: int | None = None
    probability: float | None = None
    case: str = ""
    slowdown: float | None = None
    notes: list[tuple[str, str]] = field(default_factory=list)
