"""Find a call's bottleneck on a CPU from perf's counters.

The rules use ratios that mean the same on any CPU, because perf counts no single units.
"""

from collections.abc import Mapping

from flashbench.profile.rule import BUSY, UNKNOWN, Bottleneck
from flashbench.runfile import Ceilings

_LINE = 64  # bytes of a cache line
_FEW_INSTRUCTIONS = 1.0  # per cycle, below which a core mostly waits


def of_call(
    counters: Mapping[str, float], ceilings: Ceilings | None, by_floors: Bottleneck
) -> Bottleneck:
    """The first matching rule: idle threads, which the ceilings of all threads say nothing about;
    the floors; memory; waiting cores. counters: per call, from flashbench/profile/perf.py."""
    if found := _idle_threads(counters, ceilings):
        return found
    if by_floors.name != UNKNOWN:
        return by_floors
    return _memory(counters, ceilings) or _waiting(counters) or by_floors


def _idle_threads(counters: Mapping[str, float], ceilings: Ceilings | None) -> Bottleneck | None:
    busy, seconds = counters.get("task-clock"), counters.get("seconds")
    if not busy or not seconds or ceilings is None or not ceilings.threads:
        return None
    if 100 * busy / seconds / ceilings.threads >= BUSY:
        return None
    return Bottleneck(
        "idle threads",
        (
            f"{busy / seconds:.2g} of {ceilings.threads} threads are busy",
            f"{counters.get('context-switches', 0):.2g} context switches a call",
        ),
        ("smaller tasks, evenly long", "an otherwise idle machine: see its load"),
    )


def _memory(counters: Mapping[str, float], ceilings: Ceilings | None) -> Bottleneck | None:
    seconds, misses = counters.get("seconds"), counters.get("cache-misses")
    if not seconds or not misses or ceilings is None or not ceilings.bytes_per_second:
        return None
    rate = misses * _LINE / seconds
    if 100 * rate / ceilings.bytes_per_second < BUSY:
        return None
    return Bottleneck(
        "memory",
        (
            f"{rate / 1e9:.3g} GB/s by missed cache lines",
            f"a copy reaches {ceilings.bytes_per_second / 1e9:.3g} GB/s",
        ),
        ("smaller blocks, so that what is used again stays in the cache", "a smaller dtype"),
    )


def _waiting(counters: Mapping[str, float]) -> Bottleneck | None:
    cycles, instructions = counters.get("cycles"), counters.get("instructions")
    if not cycles or instructions is None or instructions / cycles >= _FEW_INSTRUCTIONS:
        return None
    return Bottleneck(
        "latency",
        (
            f"{instructions / cycles:.2g} instructions a cycle",
            f"{counters.get('cache-misses', 0):.3g} cache misses a call",
        ),
        ("prefetch what comes next", "more independent chains: unroll"),
    )
