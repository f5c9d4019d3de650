"""Floors: the case's minimum time if it did only one thing, at this machine's measured rate."""

from dataclasses import dataclass

from flashbench.case import Case
from flashbench.runfile import Ceilings


@dataclass(frozen=True, slots=True)
class Floor:
    """work, rate: in words; the seconds are their quotient."""

    name: str
    seconds: float
    work: str
    rate: str


def floors(case: Case, ceilings: Ceilings, metric: str) -> list[Floor]:
    """The known floors, largest first.

    arithmetic: the operations of the definition. bytes: inputs read once, the result written once,
    from the cache if it holds them all and is not flushed. exponentials: those of the definition.
    launch: an empty call, by the same clock.
    """
    found = []
    if case.flops and (rate := ceilings.flops.get(case.dtype)):
        work = f"{case.flops / 1e9:.4g} GFLOP"
        found.append(Floor("arithmetic", case.flops / rate, work, f"{rate / 1e12:.4g} TFLOP/s"))
    rate, where = ceilings.bytes_per_second, "memory"
    cached = ceilings.cached_bytes_per_second
    if cached and metric != "gpu_cold" and case.bytes <= ceilings.cache_bytes / 2:
        rate, where = max(cached, rate), "cache"
    if case.bytes and rate:
        work = f"{case.bytes / 1e6:.4g} MB"
        found.append(Floor("bytes", case.bytes / rate, work, f"{rate / 1e9:.4g} GB/s ({where})"))
    if case.exponentials and (rate := ceilings.exponentials):
        work = f"{case.exponentials / 1e9:.4g} G exponentials"
        found.append(
            Floor("exponentials", case.exponentials / rate, work, f"{rate / 1e12:.4g} T/s")
        )
    if seconds := ceilings.launch_seconds.get(metric):
        found.append(
            Floor("launch", seconds, "a call that does nothing", f"{seconds * 1e6:.3g} us")
        )
    return sorted(found, key=lambda floor: -floor.seconds)
