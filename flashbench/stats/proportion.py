"""A rate of events in trials, with its interval."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """`count` of `trials`."""

    count: int
    trials: int

    @property
    def value(self) -> float:
        """The share, NaN without trials."""
        return self.count / self.trials if self.trials else math.nan

    def interval(self) -> tuple[float, float]:
        """Two-sided 95 % interval of the probability (Wilson 1927); 0 to 1 without trials."""
        if not self.trials:
            return 0.0, 1.0
        from scipy.stats import binomtest  # 0.7 s

        low, high = binomtest(self.count, self.trials).proportion_ci(method="wilson")
        return float(low), float(high)
