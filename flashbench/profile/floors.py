"""Floors: what the case would take at least if it did one thing at this machine's measured rate."""

from dataclasses import dataclass

from flashbench.case import Case
from flashbench.machine import Ceilings


@dataclass(frozen=True, slots=True)
class Floor:
    """work and rate: in words, of what the seconds are the quotient."""

    name: str
    seconds: float
    work: str
    rate: str


def floors(case: Case, ceilings: Ceilings, metric: str) -> list[Floor]:
    """Those that are known, the largest first.

    arithmetic: the two products of the unmasked pairs. bytes: q, k and v read once, the output
    written once; from the cache where that holds them all and is not emptied before. exponentials:
    one for each pair. launch: a call that does nothing, by the same clock.
    """
    found = []
    if rate := ceilings.flops.get(case.dtype):
        work = f"{case.flops / 1e9:.4g} GFLOP"
        found.append(Floor("arithmetic", case.flops / rate, work, f"{rate / 1e12:.4g} TFLOP/s"))
    rate, where = ceilings.bytes_per_second, "memory"
    cached = ceilings.cached_bytes_per_second
    if cached and metric != "gpu_cold" and case.bytes <= ceilings.cache_bytes / 2:
        rate, where = max(cached, rate), "cache"
    if rate:
        work = f"{case.bytes / 1e6:.4g} MB"
        found.append(Floor("bytes", case.bytes / rate, work, f"{rate / 1e9:.4g} GB/s ({where})"))
    if rate := ceilings.exponentials:
        work = f"{case.pairs / 1e9:.4g} G exponentials"
        found.append(Floor("exponentials", case.pairs / rate, work, f"{rate / 1e12:.4g} T/s"))
    if seconds := ceilings.launch_seconds.get(metric):
        found.append(
            Floor("launch", seconds, "a call that does nothing", f"{seconds * 1e6:.3g} us")
        )
    return sorted(found, key=lambda floor: -floor.seconds)
