"""What measuring will take: one planner, a pure function of the work and of what is known here.

`flashbench plan` and the estimate that a bisection prints before it starts ask it. (The progress of
a run takes its estimate from that run alone: flashbench/measure/progress.py.)
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from flashbench.case import Case
from flashbench.effort import (
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
        """Wider by these factors; low: 1 at the most, high: 1 at the least."""
        return Seconds(self.low * low, self.likely, self.high * high)


@dataclass(frozen=True)
class Speed:
    """What one candidate takes on one case, in seconds.

    call: one call; fixed: check and warm-up of a launch; turn: beside its samples, a turn at the
    clock; stretch: how much longer a sample is than it has to be.
    """

    call: float
    fixed: float
    turn: float
    stretch: float = 1.0


@dataclass(frozen=True)
class Around:
    """What a case takes beside its candidates, a process: inputs and reference in any launch, and
    more in the first, which checks every row and looks at memory."""

    every: float
    first: float


class Known(Protocol):
    """What is known of a machine, or guessed. A spec is as of `Candidate`."""

    def speed(self, case: Case, spec: str) -> Speed: ...

    def around(self, case: Case) -> Around: ...

    def start(self, processes: int) -> float:
        """Until a launch of so many processes can measure."""
        ...


@dataclass(frozen=True)
class Work:
    """Launches that are alike. candidates: specs, in all processes of a launch together; metrics:
    how many are measured; first: whether the run's first launch is among them."""

    cases: Sequence[Case]
    candidates: Sequence[str]
    launches: int
    samples: int
    min_sample_seconds: float | None = None  # None: the device's default
    metrics: int = 1
    processes: int = 1
    first: bool = True


def case_seconds(work: Work, case: Case, known: Known) -> float:
    """Of one case in one launch."""
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
    """What the first launch takes more for a case."""
    return known.around(case).first * work.processes


def launch_seconds(work: Work, known: Known) -> float:
    """Of any launch but the first."""
    cases = sum(case_seconds(work, case, known) for case in work.cases)
    return known.start(work.processes) + cases if work.cases else 0.0


def total_seconds(work: Work, known: Known) -> float:
    """Of all its launches."""
    if not work.cases or not work.launches:
        return 0.0
    first = sum(first_seconds(work, case, known) for case in work.cases) if work.first else 0.0
    return work.launches * launch_seconds(work, known) + first


def launches_within(budget: float, work: Work, known: Known) -> int:
    """How many whole launches of all cases a budget of device seconds pays for."""
    first = sum(first_seconds(work, case, known) for case in work.cases) if work.first else 0.0
    each = launch_seconds(work, known)
    if not each or first > budget:
        return 0
    return min(work.launches, int((budget - first) / each + 1e-9))


def cases_within(budget: float, work: Work, known: Known) -> list[Case]:
    """The cases of which all launches fit a budget, the cheapest first as long as there is one: as
    many as can be, in the grid's order."""
    cost = {
        case: work.launches * case_seconds(work, case, known)
        + (first_seconds(work, case, known) if work.first else 0.0)
        for case in work.cases
    }
    left = budget - work.launches * known.start(work.processes)
    chosen: set[Case] = set()
    for case in sorted(cost, key=lambda one: (cost[one], one.id)):
        if cost[case] > left:
            break
        chosen.add(case)
        left -= cost[case]
    return [case for case in work.cases if case in chosen]


def slowest_share(shares: Iterable[Collection[Case]], work: Work, known: Known) -> float:
    """The seconds of the machine that ends last, each measuring its share of the cases."""
    return max(
        (total_seconds(replace(work, cases=list(share)), known) for share in shares), default=0.0
    )
