"""What measuring will take: one planner, a pure function of the work and of what is known here.

`flashbench plan`, the estimate that a bisection prints before it starts and the time left that a
run shows ask it.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from flashbench.case import Case
from flashbench.sample_counts import (
    MAX_METRIC_SECONDS,
    MIN_SAMPLE_SECONDS,
    affordable_samples,
    split_samples,
)


@dataclass(frozen=True)
class Seconds:
    """An estimate with its range: low <= likely <= high."""

    low: float = 0.0
    likely: float = 0.0
    high: float = 0.0

    def __add__(self, other: "Seconds") -> "Seconds":
        return Seconds(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def __mul__(self, factor: float) -> "Seconds":
        return Seconds(self.low * factor, self.likely * factor, self.high * factor)

    def spread(self, low: float, high: float) -> "Seconds":
        """Widen the range by these factors. low: at most 1; high: at least 1."""
        return Seconds(self.low * low, self.likely, self.high * high)

    @classmethod
    def about(cls, likely: float, spread: tuple[float, float]) -> "Seconds":
        """An estimate whose range is by these factors."""
        return cls(likely, likely, likely).spread(*spread)


@dataclass(frozen=True)
class Speed:
    """The seconds of one candidate on one case.

    call: one call; fixed: check and warm-up per launch; turn: overhead of a turn at the clock;
    stretch: actual over required duration of a sample.
    """

    call: float
    fixed: float
    turn: float
    stretch: float = 1.0


@dataclass(frozen=True)
class Around:
    """The seconds of a case per process beside its candidates: inputs and reference in any launch,
    and more in the first, which checks every row and measures memory."""

    every: float
    first: float


@dataclass(frozen=True)
class Start:
    """The seconds until a launch can measure. first: of workers that nothing was started before;
    later: of those forked from what the first started."""

    first: float
    later: float

    def seconds(self, launches: float, fresh: float) -> float:
        """Seconds of all these launches; at most `fresh` of them start workers anew."""
        fresh = min(fresh, launches)
        return fresh * self.first + (launches - fresh) * self.later


class Known(Protocol):
    """Known or guessed times of a machine. A spec is that of a `Candidate`."""

    def speed(self, case: Case, spec: str) -> Speed: ...

    def around(self, case: Case) -> Around: ...

    def start(self, processes: int, candidates: Sequence[str]) -> Start:
        """Seconds to start a launch with this many processes, which import these."""
        ...


@dataclass(frozen=True)
class Work:
    """Equal launches. candidates: the specs of all processes of a launch; metrics: how many are
    measured; first: whether they include the run's first launch; fresh: how many launches start
    workers anew, at most: one of each command, or all that are not forked."""

    cases: Sequence[Case]
    candidates: Sequence[str]
    launches: int
    samples: int
    min_sample_seconds: float | None = None  # None: the device's default
    metrics: int = 1
    processes: int = 1
    first: bool = True
    fresh: int = 1


def case_seconds(work: Work, case: Case, known: Known) -> float:
    """The seconds of one case in one launch."""
    least = work.min_sample_seconds or MIN_SAMPLE_SECONDS[case.device]
    speeds = [known.speed(case, spec) for spec in work.candidates]
    # By place: of paired processes each has an SDPA.
    lengths = {str(place): max(least, one.call) * one.stretch for place, one in enumerate(speeds)}
    counts = affordable_samples(lengths, work.samples, MAX_METRIC_SECONDS[case.device])
    seconds = known.around(case).every * work.processes
    for place, one in enumerate(speeds):
        samples = counts[str(place)]
        turns = len(split_samples(samples))
        seconds += one.fixed
        seconds += work.metrics * (turns * one.turn + samples * lengths[str(place)])
    return seconds


def first_seconds(work: Work, case: Case, known: Known) -> float:
    """The extra seconds of a case in the first launch."""
    return known.around(case).first * work.processes


def starts_seconds(work: Work, known: Known) -> float:
    """The seconds of the starts of all launches."""
    return known.start(work.processes, work.candidates).seconds(work.launches, work.fresh)


def total_seconds(work: Work, known: Known) -> float:
    """The seconds of all launches."""
    if not work.cases or not work.launches:
        return 0.0
    first = sum(first_seconds(work, case, known) for case in work.cases) if work.first else 0.0
    cases = sum(case_seconds(work, case, known) for case in work.cases)
    return starts_seconds(work, known) + work.launches * cases + first


def launches_within(budget: float, work: Work, known: Known) -> int:
    """How many whole launches of all cases a budget of device seconds pays for."""
    one, two = (total_seconds(replace(work, launches=count), known) for count in (1, 2))
    if not one or one > budget + 1e-9:
        return 0
    return min(work.launches, 1 + int((budget - one) / (two - one) + 1e-9))


def cases_within(budget: float, work: Work, known: Known) -> list[Case]:
    """The cases whose launches all fit a budget: as many as possible, cheapest first, returned in
    the grid's order."""
    cost = {
        case: work.launches * case_seconds(work, case, known)
        + (first_seconds(work, case, known) if work.first else 0.0)
        for case in work.cases
    }
    left = budget - starts_seconds(work, known)
    chosen: set[Case] = set()
    for case in sorted(cost, key=lambda one: (cost[one], one.id)):
        if cost[case] > left:
            break
        chosen.add(case)
        left -= cost[case]
    return [case for case in work.cases if case in chosen]


def slowest_share(shares: Iterable[Collection[Case]], work: Work, known: Known) -> float:
    """The seconds of the last machine to finish, if each measures its share of the cases."""
    return max(
        (total_seconds(replace(work, cases=list(share)), known) for share in shares), default=0.0
    )
