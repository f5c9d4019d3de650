"""A logarithmic chart axis with its ticks."""

import math
from collections.abc import Sequence

_TICKS = 8  # fits on a phone
# Ticks per decade, finest first.
_STEPS = (
    (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 3, 4, 5, 6, 7, 8, 9),
    (1, 1.2, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
    (1,),
)


class LogAxis:
    """Map positive numbers to positions between `start` and `end`."""

    def __init__(self, numbers: Sequence[float], start: float = 0, end: float = 1) -> None:
        self._low = math.log(min(numbers)) - 0.05
        self._high = math.log(max(numbers)) + 0.05
        self._start, self._end = start, end

    def __call__(self, number: float) -> float:
        part = (math.log(number) - self._low) / (self._high - self._low)
        return round(self._start + part * (self._end - self._start), 2)

    def ticks(self) -> list[float]:
        """Round numbers in range, `_TICKS` at most."""
        first, last = (math.floor(end / math.log(10)) for end in (self._low, self._high))
        for steps in _STEPS:
            inside = [
                step * 10.0**power
                for power in range(first, last + 1)
                for step in steps
                if self._low <= math.log(step * 10.0**power) <= self._high
            ]
            if len(inside) <= _TICKS:
                break
        return [float(f"{number:.6g}") for number in inside]
