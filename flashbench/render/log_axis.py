"""A logarithmic chart axis with its ticks."""

import math
from collections.abc import Sequence

_TICKS = 8  # fits on a phone
_FEW = 3  # fewer powers and their parts than these say little about a short axis
# Ticks per decade, finest first.
_STEPS = (
    (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 3, 4, 5, 6, 7, 8, 9),
    (1, 1.2, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
    (1,),
)


class LogAxis:
    """Map positive numbers, at least two of them different, to positions between `start` and
    `end`."""

    def __init__(self, numbers: Sequence[float], start: float = 0, end: float = 1) -> None:
        self._low, self._high = min(numbers), max(numbers)
        self._start, self._end = start, end

    def __call__(self, number: float) -> float:
        part = math.log(number / self._low) / math.log(self._high / self._low)
        return round(self._start + part * (self._end - self._start), 2)

    def ticks(self) -> list[float]:
        """Round numbers in range, `_TICKS` at most."""
        first, last = (math.floor(math.log10(end)) for end in (self._low, self._high))
        for steps in _STEPS:
            powers = (10.0**power for power in range(first, last + 1))
            found = (float(f"{step * power:.6g}") for power in powers for step in steps)
            inside = [number for number in found if self._low <= number <= self._high]
            if len(inside) <= _TICKS:
                break
        if len(inside) < _FEW and self._high < 10 * self._low:
            return linear_ticks(self._low, self._high)
        return inside


def linear_ticks(low: float, high: float) -> list[float]:
    """Round numbers at equal distances in range, at most six."""
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    while (high - low) / step > 5:
        step *= 2 if str(step).strip("0.")[0] in "15" else 2.5
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
