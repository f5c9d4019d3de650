"""What runs spent, what of it gave no result, and what early stopping saved."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from typing import Self

from flashbench.cost.money import DevicePrice, money_text
from flashbench.runfile import Launch, Result, ResultStatus, RunFile

# These statuses say nothing about a candidate's speed or result.
_NO_RESULT: frozenset[ResultStatus] = frozenset(
    {"error", "crashed", "timeout", "out_of_memory", "interrupted", "over_budget"}
)


@dataclass(frozen=True)
class Spent:
    """Seconds. device: lives of worker processes; lost: those of them without a result; saved: what
    the fixed plan would have taken in addition; builds: wall clock, with their checks; rented: that
    machines rented for it were paid for, these included. rate: None without a price."""

    device: float = 0.0
    lost: float = 0.0
    saved: float = 0.0
    builds: float = 0.0
    rented: float = 0.0
    rate: DevicePrice | None = None

    @classmethod
    def of(cls, run: RunFile) -> Self:
        """From a run file's account; files of older versions have only device seconds."""
        lost = run.costs.lost_seconds + sum(map(_lost, run.launches))
        saved, builds = run.costs.saved_seconds, run.costs.build_seconds
        device = run.device_seconds
        rented = run.costs.rented_seconds
        return cls(device, min(lost, device), saved, builds, rented, rate_of(run))

    @classmethod
    def all_of(cls, runs: Iterable[RunFile]) -> Self:
        """The sum over run files."""
        return cls.total(map(cls.of, runs))

    @classmethod
    def total(cls, several: Iterable[Self]) -> Self:
        """All of it; with a price only if all have the same."""
        parts = list(several)
        rates = {part.rate for part in parts}
        names = [one.name for one in fields(cls) if one.name != "rate"]
        sums = {name: sum(getattr(part, name) for part in parts) for name in names}
        return cls(**sums, rate=rates.pop() if len(rates) == 1 else None)

    def __bool__(self) -> bool:
        return bool(self.device or self.builds or self.rented)

    def money(self, seconds: float) -> float | None:
        """The price of these seconds; None without a rate."""
        return None if self.rate is None else self.rate.price_of(seconds)

    @property
    def line(self) -> str:
        """One line for readers, of the nonzero parts."""
        parts = [f"device time {self._shown(self.device, 'cost ')}"] if self.device else []
        for what, seconds in (
            ("without a result", self.lost),
            ("saved by stopping early", self.saved),
            ("builds", self.builds),
            ("rented machine, from start to end", self.rented),
        ):
            if seconds >= 0.05:
                parts.append(f"{what} {self._shown(seconds)}")
        return "; ".join(parts)

    def summary(self) -> dict[str, float | str | None]:
        """For programs."""
        return {
            "device_seconds": self.device,
            "cost": self.money(self.device),
            "lost_seconds": self.lost,
            "lost_cost": self.money(self.lost),
            "saved_seconds": self.saved,
            "saved_cost": self.money(self.saved),
            "build_seconds": self.builds,
            "build_cost": self.money(self.builds),
            "rented_seconds": self.rented,
            "rented_cost": self.money(self.rented),
            "hourly_rate": self.rate.hourly if self.rate else None,
            "currency": (self.rate and self.rate.currency) or None,
            "price": (self.rate and self.rate.source) or None,
        }

    def _shown(self, seconds: float, cost: str = "") -> str:
        text = f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
        if self.rate is None:
            return text
        return f"{text}, {cost}{money_text(self.rate.price_of(seconds), self.rate.currency)}"


def has_result(result: Result) -> bool:
    """Whether it shows something: a time, a wrong result, or an unsupported case."""
    return result.status not in _NO_RESULT


def _lost(launch: Launch) -> float:
    failed = [result for result in launch.results if not has_result(result)]
    if len(failed) == len(launch.results):
        return launch.device_seconds
    return launch.lost_seconds + sum(result.device_seconds for result in failed)


def rate_of(run: RunFile) -> DevicePrice | None:
    """The hourly rate of its machine, if known."""
    if run.hourly_rate is None:
        return None
    return DevicePrice(run.hourly_rate, run.costs.currency, run.costs.price)


def saved_seconds(run: RunFile, settled: Collection[str]) -> float:
    """Seconds saved by the cases (ids) that were decided early: what the rest of the fixed plan
    would have taken them at the rate of the launches so far, without the first, which checks more,
    if there are others. At most what is left of a budget."""
    planned, total = run.settings.launches, 0.0
    for case in settled:
        seconds = (launch.case_seconds.get(case) for launch in run.launches)
        taken = [one for one in seconds if one is not None]
        later = taken[1:] or taken
        total += max(0, planned - len(taken)) * _mean(later)
    if run.cases and all(case.id in settled for case in run.cases):
        starts = [launch.start_seconds for launch in run.launches if launch.start_seconds]
        total += max(0, planned - len(run.launches)) * _mean(starts)
    budget = run.settings.budget_seconds
    if budget is not None:
        total = min(total, max(0.0, budget - run.device_seconds))
    return round(total, 3)


def seconds_of_more(run: RunFile, cases: Collection[str], launches: int) -> float:
    """Seconds until a run has this many launches of these cases (ids), at the rate of those so far,
    without the first, which checks more, if there are others. A file that lacks the seconds of a
    case counts whole launches; 0 if it has not these either."""
    more = max(0, launches - len(run.launches))
    rate = _mean([launch.start_seconds for launch in run.launches[1:] or run.launches])
    for case in cases:
        seconds = [one.case_seconds.get(case) for one in run.launches]
        taken = [one for one in seconds if one is not None]
        if not taken:
            whole = [one.device_seconds for one in run.launches if one.complete]
            return more * _mean(whole[1:] or whole)
        rate += _mean(taken[1:] or taken)
    return more * rate


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
