"""Forecast of a whole command: its parts, their sources, and what a budget buys."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from flashbench.case import Case
from flashbench.cost import store
from flashbench.cost.estimate import (
    Seconds,
    Work,
    case_seconds,
    cases_within,
    first_seconds,
    launches_within,
    starts_seconds,
)
from flashbench.cost.known import LEAST_START, Basis, Experience, experience
from flashbench.cost.money import DevicePrice, Money
from flashbench.machine import name_of

# The command's own seconds, beside builds and workers: to start, judge and write.
_COMMAND = Seconds(0.3, 0.6, 3.0)
_FIRST = "more checks in the first launch"


@dataclass(frozen=True)
class Part:
    """A line of a plan. count: of its items; device: whether workers live meanwhile."""

    name: str
    count: float
    seconds: Seconds
    device: bool = True


@dataclass
class Forecast:
    """What a command will take. what: its size in words; machine: where; elsewhere: it is not this
    one, and has no builds; sources: of the estimate,
    one line each; side_by_side: devices that share the work; rate, budget_seconds: None without
    one. fits: what fits if the plan exceeds its budget, in words."""

    command: str
    what: str
    machine: str
    elsewhere: bool = False
    parts: list[Part] = field(default_factory=list)
    sources: list[tuple[str, str]] = field(default_factory=list)
    rate: DevicePrice | None = None
    budget: str = ""
    budget_seconds: float | None = None
    builds_count: bool = False  # the budget pays for builds and their checks
    work: Work | None = None  # all of it, if all launches are equal
    known: Experience | None = None
    wall_device: Seconds | None = None  # of the last device to finish, if several share
    shards: list[str] = field(default_factory=list)  # of those devices, as for --shard
    shares: list[list[Case]] = field(default_factory=list)  # the cases of these

    @property
    def device(self) -> Seconds:
        """Seconds that workers live, on all devices together."""
        return sum((one.seconds for one in self.parts if one.device), Seconds())

    @property
    def builds(self) -> Seconds:
        """Wall-clock seconds of builds and the checks after them."""
        return sum((one.seconds for one in self.parts if not one.device), Seconds())

    @property
    def wall(self) -> Seconds:
        """Wall-clock seconds of the whole command."""
        return self.builds + (self.wall_device or self.device) + _COMMAND

    @property
    def paid(self) -> Seconds:
        """The seconds that are paid for: of all devices together."""
        return self.builds + self.device + _COMMAND

    @property
    def counted(self) -> Seconds:
        """The seconds that the budget pays for."""
        return self.device + self.builds if self.builds_count else self.device

    @property
    def over_budget(self) -> bool:
        """Whether the budget is likely spent before the end."""
        return self.budget_seconds is not None and self.counted.likely > self.budget_seconds

    @property
    def left(self) -> float:
        """Seconds of the budget after the builds that it pays for."""
        assert self.budget_seconds is not None
        return self.budget_seconds - (self.builds.likely if self.builds_count else 0.0)

    @property
    def _works(self) -> list[tuple[float, Work]]:
        """The work of each device, and the budget that it may spend: each has an equal part."""
        if self.work is None:
            return []
        shares = self.shares or [list(self.work.cases)]
        return [(self.left / len(shares), replace(self.work, cases=share)) for share in shares]

    @property
    def ends_before_measuring(self) -> bool:
        """Whether builds and the first start of workers likely spend the budget."""
        if self.budget_seconds is None:
            return False
        if self.known is None or self.work is None:
            return self.left <= 0
        start = self._shortest_start or self.known.start(*self._workers).first
        return self.left / max(1, len(self.shares)) <= start

    @property
    def begins_nothing(self) -> bool:
        """Whether the command refuses the budget before it builds or starts anything."""
        if self.budget_seconds is None or self._shortest_start is None:
            return False
        share = self.budget_seconds / max(1, len(self.shares))
        return share < LEAST_START * self._shortest_start

    @property
    def _workers(self) -> tuple[int, Sequence[str]]:
        """Processes of a launch, and the specs of their candidates."""
        return (self.work.processes, self.work.candidates) if self.work else (1, [])

    @property
    def _shortest_start(self) -> float | None:
        return self.known.shortest_start(*self._workers) if self.known else None

    def launches_that_fit(self) -> int | None:
        """How many launches of all cases the budget allows; None if unknown."""
        if self.known is None or self.budget_seconds is None or self.work is None:
            return None
        return min(launches_within(*one, self.known) for one in self._works)

    def cases_that_fit(self) -> list[Case] | None:
        """The cases that the budget can measure in every launch; None if unknown."""
        if self.known is None or self.budget_seconds is None or self.work is None:
            return None
        fit = [case for one in self._works for case in cases_within(*one, self.known)]
        return [case for case in self.work.cases if case in fit]


@dataclass(frozen=True)
class Terms:
    """On what terms a command measures. budget: as it was given, in seconds or money, and in
    seconds; threads: of torch, None for its default; on: another machine, by a part of its device's
    name."""

    rate: DevicePrice | None = None
    budget: float | Money | None = None
    budget_seconds: float | None = None
    threads: int | None = None
    on: str = ""

    def known(self, device: str) -> Experience:
        """Experience with the machine."""
        if not self.on:
            return experience(device, self.threads)
        return Experience(device, store.read().like(device, self.on))

    def forecast(self, command: str, work: Work, known: Experience) -> Forecast:
        """A forecast without parts."""
        sizes = (
            (len(work.cases), "case", "s"),
            (len(work.candidates), "candidate", "s"),
            (work.launches, "launch", "es"),
        )
        words = [f"{count} {noun}{end * (count != 1)}" for count, noun, end in sizes]
        budget = self.budget
        limit = str(budget) if isinstance(budget, Money) else f"{budget:g}s" if budget else ""
        threads = known.machine.threads if known.machine and known.device == "cpu" else 0
        return Forecast(
            command,
            " x ".join(words),
            (known.machine.name if known.machine else self.on or name_of(known.device))
            + (f", {threads} threads" if threads else ""),
            elsewhere=bool(self.on),
            rate=self.rate,
            budget=limit,
            budget_seconds=self.budget_seconds,
            builds_count=isinstance(budget, Money),
        )


def measuring_parts(work: Work, known: Experience) -> list[Part]:
    """The parts of equal launches: starts, cases, and extra checks of the first."""
    spread = known.spread(known.level_of(work))
    if not work.cases or not work.launches:
        return []
    cases = sum(case_seconds(work, case, known) for case in work.cases)
    count = work.launches * work.processes
    parts = [
        Part("starts of workers", count, Seconds.about(starts_seconds(work, known), spread)),
        Part(
            "cases", work.launches * len(work.cases), Seconds.about(work.launches * cases, spread)
        ),
    ]
    if work.first:
        first = sum(first_seconds(work, case, known) for case in work.cases)
        parts.append(Part(_FIRST, len(work.cases), Seconds.about(first, spread)))
    return parts


def parts_until_decided(
    work: Work, known: Experience, tolerance: float, confidence: float, *, sought: bool = False
) -> tuple[list[Part], tuple[str, str]]:
    """The parts of launches of two builds until each case is decided, at most `work.launches`; and
    the source of their number. sought: whether a change is expected."""
    counts, is_known = known.launches(work, tolerance, confidence, sought=sought)
    spread = known.spread(known.level_of(work))
    total = Seconds()
    for case, count in zip(work.cases, counts, strict=True):
        total += count * case_seconds(work, case, known)
    longest = Seconds(
        *(max((getattr(c, end) for c in counts), default=0.0) for end in ("low", "likely", "high"))
    )
    start = known.start(work.processes, work.candidates)
    starts = Seconds(
        *(start.seconds(n, work.fresh) for n in (longest.low, longest.likely, longest.high))
    )
    first = sum(first_seconds(work, case, known) for case in work.cases)
    parts = [
        Part("starts of workers", longest.likely * work.processes, starts.spread(*spread)),
        Part("cases", sum(count.likely for count in counts), total.spread(*spread)),
        Part(_FIRST, len(work.cases), Seconds.about(first, spread)),
    ]
    assumed = "one is clearly slower" if sought else "they are equally fast"
    why = f"by the spread of earlier launches here, if {assumed}"
    if not is_known:
        why = "a guess, because the spread of launches here is not known"
    likely = f"{longest.likely:.0f} ({longest.low:.0f} to {longest.high:.0f})"
    return parts, (
        "launches" if is_known else "guess",
        f"about {likely} launches until every case of the two builds is decided: {why}",
    )


def source(known: Experience, work: Work) -> tuple[str, str]:
    """The source of an estimate: a code, and words."""
    level = known.level_of(work)
    machine = known.machine
    if level is Basis.GUESS or machine is None:
        return "guess", (
            "no earlier run on this machine: a guess from the cases' operations; measure once to "
            "know"
        )
    since = f"{machine.launches} launches on this machine, the last on {machine.updated[:10]}"
    if level is Basis.KNOWN:
        return "known", f"from {since}"
    levels = [known.level(case, work.candidates) for case in work.cases]
    unknown = sum(one is not Basis.KNOWN for one in levels)
    return "near", (
        f"from {since}, which had not all of it: {unknown} of {len(levels)} cases are estimated "
        "from the cases most like them"
    )
