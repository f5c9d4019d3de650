"""Predict how many launches the sequential rule takes, from the spread of earlier launches here."""

import math
from bisect import bisect_left

from flashbench.cost.estimate import Seconds
from flashbench.stats.sequential import (
    TIGHT_DEVIATION,
    IntervalTerms,
    expected_half_width,
    launches_needed_tight,
)

# Changes beyond the tolerance assumed by a plan: one that is obvious, one that is searched for, at
# least, because somebody saw it: so many times the spread.
LARGE, SOUGHT, SEEN = 0.10, 0.05, 3.0
_MEDIAN_ERROR = (
    0.6745  # of a normal mean, in standard errors: the typical difference of equal builds
)
WORSE = 1.5  # times the spread so far, at the end of the range; divided by it, at its beginning


def spread_factor(processes: int) -> float:
    """The spread of two builds over that of one and SDPA: in a process each, both ratios vary."""
    return math.sqrt(2) if processes > 1 else 1.0


def sought_change(spread: float, tolerance: float) -> float:
    """The log-ratio of a slowdown that a bisection is asked to find, as a plan assumes it."""
    return max(math.log1p(tolerance + SOUGHT), SEEN * spread)


def launches_until_decided(
    spread: float, tolerance: float, terms: IntervalTerms, most: int, *, sought: bool = False
) -> Seconds:
    """Launches until a case is decided, at most `most`.

    spread: the standard deviation of the log-ratio of two builds between launches; terms: of the
    case's own interval. low: if the builds differ by `LARGE` more than the tolerance, or are equal,
    with less spread; likely: if they are equal, or, if `sought`, until `sought_change` is
    distinguished from none; high: if they are equal, with more spread, or if they clearly differ.
    """
    limit = math.log1p(tolerance)

    def needed(deviation: float, distance: float, off: float = 0.0) -> int:
        """Launches until half the interval plus the middle's error times `off` is below
        `distance`."""

        def narrow(launches: int) -> bool:
            width = expected_half_width(launches, terms) + off / math.sqrt(max(1, launches))
            return deviation * width <= distance

        least = min(most, terms.least)
        return max(least, bisect_left(range(most), True, key=narrow))

    # Launches that are close together beside their change need more of them to be trusted.
    tight = min(most, launches_needed_tight(terms.alpha))
    large = math.log1p(tolerance + LARGE) - limit
    low = min(needed(spread, large), needed(spread / WORSE, limit, _MEDIAN_ERROR))
    likely = needed(spread, limit, _MEDIAN_ERROR)
    if sought:
        change = sought_change(spread, tolerance)
        likely = needed(spread, change)
        if change >= TIGHT_DEVIATION * spread:
            likely = max(likely, tight)
    high = max(tight, needed(WORSE * spread, limit, _MEDIAN_ERROR))
    return Seconds(min(low, likely), likely, max(likely, high))
