"""Texts of numbers on pages."""

import math

from flashbench.other_tools.benchmarks import SECONDS
from flashbench.table import digits, ratio_text

TIME_UNITS = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns"))  # of times: the first that gives 1


def speedup_text(value: float, low: float, high: float) -> str:
    """A speed-up, with its interval in brackets if there is one."""
    if math.isnan(low) or math.isnan(high):
        return ratio_text(value)
    return f"{ratio_text(value)} [{ratio_text(low)}, {ratio_text(high)}]"


def value_text(value: float, unit: str) -> str:
    """Four digits and the unit, which for times depends on their size."""
    factor, name = _suited(value) if unit == SECONDS else (1.0, unit)
    return f"{digits(value * factor)} {name}".rstrip()


def _suited(seconds: float) -> tuple[float, str]:
    return next((unit for unit in TIME_UNITS if seconds * unit[0] >= 1), TIME_UNITS[-1])
