"""Describe the difference of two profiles of a case: "same time, twice the bank conflicts"."""

from collections.abc import Mapping
from dataclasses import dataclass

from flashbench.profile.model import Subject

SAME_TIME = 0.03  # medians of single launches that differ by less are equal
_LARGE = 1.25  # name counters from this ratio, or its inverse, on
_MOST = 5


@dataclass(frozen=True, slots=True)
class _Amount:
    """A counter that adds up over kernels. least: ignore smaller values."""

    words: str
    least: float


_AMOUNTS = {
    "conflicts": _Amount("the bank conflicts", 1e4),
    "instructions": _Amount("the instructions", 1e4),
    "dram_bytes": _Amount("the bytes from and to memory", 1e6),
    "l2_bytes": _Amount("the bytes through L2", 1e6),
    "shared_cycles": _Amount("the cycles of shared memory", 1e4),
    "registers": _Amount("the registers", 1.0),
    "shared": _Amount("the shared memory a block", 1.0),
    "occupancy": _Amount("the occupancy", 1.0),
    "kernels": _Amount("the kernels", 1.0),
    "cycles": _Amount("the cycles", 1e3),
    "cache-misses": _Amount("the cache misses", 1e2),
    "branch-misses": _Amount("the mispredicted branches", 1e2),
}


def differences(old: Subject, new: Subject, metric: str) -> str:
    """What `new` has more or less of than `old`; "" if nothing is comparable."""
    parts = [_time(old, new, metric)]
    before, after = amounts(old), amounts(new)
    ratios = [
        (after[name] / before[name], amount)
        for name, amount in _AMOUNTS.items()
        if before.get(name) and after.get(name) and max(before[name], after[name]) >= amount.least
    ]
    large = [pair for pair in ratios if not 1 / _LARGE < pair[0] < _LARGE]
    large.sort(key=lambda pair: -max(pair[0], 1 / pair[0]))
    parts += [f"{times(ratio)} {amount.words}" for ratio, amount in large[:_MOST]]
    parts += [
        f"{what} {amount.words.removeprefix('the ')}"
        for name, amount in _AMOUNTS.items()
        for what in [_appeared(before.get(name), after.get(name), amount.least)]
        if what
    ][:_MOST]
    return ", ".join(part for part in parts if part)


def amounts(subject: Subject) -> dict[str, float]:
    """The amounts of a whole call: sums over its kernels, and its longest kernel's launch."""
    counted = [kernel.counters for kernel in subject.kernels if kernel.counters]
    found = dict(subject.counters)
    if not counted:
        return found
    for name in ("conflicts", "instructions", "l2_bytes", "shared_cycles"):
        found[name] = sum(counters.get(name, 0.0) for counters in counted)
    found["dram_bytes"] = sum(memory_bytes(counters) for counters in counted)
    found["kernels"] = len(counted)
    top = max(counted, key=lambda counters: counters.get("duration", 0.0))
    found["shared"] = top.get("shared_static", 0.0) + top.get("shared_dynamic", 0.0)
    for name in ("registers", "occupancy"):
        found[name] = top.get(name, 0.0)
    return found


def memory_bytes(counters: Mapping[str, float]) -> float:
    """Bytes read from and written to the device's memory."""
    return counters.get("dram_read", 0.0) + counters.get("dram_write", 0.0)


def times(ratio: float) -> str:
    """A ratio in words."""
    for value, word in ((2.0, "twice"), (0.5, "half")):
        if abs(ratio / value - 1) < 0.05:
            return word
    return f"{ratio:.1f} times" if ratio >= 1 else f"{_decimals(ratio)} times"


def _decimals(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def _appeared(before: float | None, after: float | None, least: float) -> str:
    if before is None or after is None:
        return ""
    if not before and after >= least:
        return "now has"
    return "no more" if not after and before >= least else ""


def _time(old: Subject, new: Subject, metric: str) -> str:
    """The ratio of the medians, in words: a profile has no launches to take a median over."""
    before, after = old.times.get(metric), new.times.get(metric)
    if before is None or after is None:
        return ""
    ratio = after.median / before.median
    if abs(ratio - 1) <= SAME_TIME:
        return "same time"
    return f"{_decimals(ratio)} times the time"
