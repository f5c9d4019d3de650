"""How many launches the sequential rule will take, from the spread of earlier launches here."""

import math
from bisect import bisect_left

from flashbench.cost.estimate import Seconds
from flashbench.stats.sequential import expected_half_width, launches_needed_anytime

# Changes that a plan counts with: one that is seen at once, one that is looked for.
LARGE, SOUGHT = 0.10, 0.05
_MEDIAN_ERROR = 0.6745  # of a normal mean, in standard errors: equal builds look that different
_WORSE = 1.5  # times the spread so far, at the end of the range


def launches_until_decided(
    spread: float, tolerance: float, alpha: float, most: int, *, sought: bool = False
) -> Seconds:
    """Launches until a case is decided, `most` at the most.

    spread: the standard deviation of its log-ratio of two builds from launch to launch; alpha: of
    its interval alone. low: where the builds differ by `LARGE`; likely: where they do not differ,
    or if `sought`, by `SOUGHT`; high: where they do not, with more spread than before.
    """
    limit = math.log1p(tolerance)

    def needed(deviation: float, distance: float, off: float = 0.0) -> int:
        """Until half the interval, and its middle's error times `off`, are less than `distance`."""

        def narrow(launches: int) -> bool:
            width = expected_half_width(launches, alpha) + off / math.sqrt(max(1, launches))
            return deviation * width <= distance

        least = min(most, launches_needed_anytime(alpha))
        return max(least, bisect_left(range(most), True, key=narrow))

    def beyond(change: float) -> float:
        """How far a change is from the tolerance."""
        return max(0.0, math.log1p(change) - limit)

    low = needed(spread, beyond(LARGE))
    likely = needed(spread, beyond(SOUGHT)) if sought else needed(spread, limit, _MEDIAN_ERROR)
    high = needed(_WORSE * spread, limit, _MEDIAN_ERROR)
    return Seconds(min(low, likely), likely, max(likely, high))
