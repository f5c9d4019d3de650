"""Find where a series changes its level, despite noise, outliers and autocorrelation.

The segmentation is the exact minimum of squares plus a penalty per change
(`stats/optimal_partition.py`), for many series at once: `segment_all`. Around it:

- Outliers become the median of their neighbourhood (Hampel's filter: Davies & Gather 1993).
- The noise is first that of the differences, which steps hardly affect, then that of the residuals,
  as the long-run deviation of an AR(1) process.
- The penalty was chosen by simulation (docs/lab/statistics.md); `calibrate` raises it if a
  project's noise requires more.
- A change among the last few points has few possible places, so it needs less evidence. It is
  judged by the noise that remains without it, most of which it would be itself in a short series.
- A change found by one look is provisional until it is clear enough for many: `stats/lasting.py`.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.parallel import spread
from flashbench.stats.lasting import FEWEST_POINTS, lasts
from flashbench.stats.optimal_partition import SHORTEST, cuts_of
from flashbench.stats.order import inflation, widened
from flashbench.stats.outliers import noise_of_differences, without_outliers
from flashbench.stats.shift import Shift, unpaired_shift

FEWEST = 2 * SHORTEST  # points of a series that can show a change, at least
LEAST_NOISE = 1e-3  # on a log scale; smaller changes than 0.1 % are no news
_REACH = SHORTEST - 1  # of the median that replaces outliers: a level is the majority in its window
_MAX_CORRELATION = 0.9
_TOO_FEW, _ENOUGH = 10, 20  # points that show no correlation at all, and all of it
_RECENT = range(5, 11)  # points at the end that are searched separately
_RECENT_Z = 3.25  # standard errors, for many points
_STUDENT = 3.0  # divided by the points: about how much larger Student's t is
_UNPAID = 16  # series that can be searched together without a higher penalty
_TOGETHER = 128  # series per batch, whose windows fit into a processor's cache
# 95 % of the distribution of the likelihood ratio of a change's place, -2 log(1 - sqrt(0.95)):
# Hansen, Sample splitting and threshold estimation, Econometrica 68 (2000), p. 582.
_PLACE = 7.352
_NEAR = 32  # points on each side from which the size of a change is estimated

_LOOKS = 3  # per series, each with the noise of the previous residuals
BLOCK = 10  # points that stay together when noise is shuffled
NULL_LENGTH = 200
FALSE_RATE = 0.005  # of null series of that length
_REPLICATES = 1000
_MANY = 2**18  # points from which parallel processes pay
_LEAST_POINTS = 5 * NULL_LENGTH  # fewer, over all series, say too little about rare noise
_MOST = 4.0  # beyond four times the penalty, noise is not the problem
_STEP = 1.1


@dataclass(frozen=True, slots=True)
class Step:
    """One change of level. at: index of the first point of the new level; first, last: the range
    that contains it with 95 %; shift: new level minus old, with its interval."""

    at: int
    first: int
    last: int
    shift: Shift
    before: int  # points of the previous level
    after: int
    provisional: bool  # shown only by a single look; see `stats/lasting.py`


@dataclass(frozen=True, slots=True)
class Segmentation:
    """The levels of a series. noise: standard deviation of a point; correlation: of neighbours, at
    least 0; residuals: (points,), in units of `noise`."""

    steps: tuple[Step, ...]
    noise: float
    correlation: float
    residuals: FloatArray


def penalty(points: int) -> float:
    """The squared standard deviations that a change must save in a series of this many points.

    Grows with the number of places, and for few points, where the noise itself is uncertain.
    """
    return 3.4 * math.log(points) + 200 / points


def segment(
    values: FloatArray, *, factor: float = 1.0, alpha: float = 0.05, among: int = 1
) -> Segmentation:
    """The levels of `values`.

    values: (points,), finite, of a log scale (0.01 is 1 %), in the order of time. factor: of the
    penalty, from `calibrate`. alpha: 1 - confidence of each shift's own interval. among: the number
    of series searched together, including this one, over which false changes are limited.
    A level needs 4 points; fewer than 8 show no change.
    """
    return _segment_batch([values], _Asked(factor, alpha, among))[0]


def segment_all(
    series: Sequence[FloatArray], *, factor: float = 1.0, alpha: float = 0.05, among: int = 1
) -> list[Segmentation]:
    """`segment` of each series, faster and in parallel."""
    asked = _Asked(factor, alpha, among)
    # A small one first: `spread` does that one before the others.
    ends = [0, *range(1, len(series), _TOGETHER), len(series)]
    batches = [series[start:end] for start, end in itertools.pairwise(ends)]
    least = 2 if sum(map(len, series)) >= _MANY else len(batches) + 1
    found = spread(lambda number: _segment_batch(batches[number], asked), len(batches), least=least)
    return [one for batch in found for one in batch]


def calibrate(residuals: Sequence[FloatArray], seed: int = 0) -> float:
    """The factor on the penalty that keeps the false-change rate on a project's own noise; at least
    1.

    residuals: `Segmentation.residuals` of each series. Null series of up to 200 points are blocks
    of them in random order (which keeps the autocorrelation; Kunsch 1989), and the factor is raised
    until at most 0.5 % of 1000 such series show a change. Fewer than 1000 points in all say too
    little.
    """
    usable = [one for one in residuals if len(one) >= 2 * BLOCK]
    if sum(map(len, usable)) < _LEAST_POINTS:
        return 1.0
    rng = np.random.default_rng(seed)  # seeded, so that the same history gives the same changes
    waiting = [_shuffled(usable[rng.integers(len(usable))], rng) for _ in range(_REPLICATES)]
    factor = 1.0
    while factor < _MOST:
        # What shows no change at a lower penalty shows none at a higher one.
        waiting = _with_changes(waiting, factor)
        if len(waiting) <= FALSE_RATE * _REPLICATES:
            break
        factor *= _STEP
    return min(factor, _MOST)


def _with_changes(series: list[FloatArray], factor: float) -> list[FloatArray]:
    found = segment_all([0.01 * one for one in series], factor=factor)
    return [one for one, segmented in zip(series, found, strict=True) if segmented.steps]


def _shuffled(residuals: FloatArray, rng: np.random.Generator) -> FloatArray:
    count = len(residuals)
    first = rng.integers(count)  # blocks begin anywhere
    blocks = BLOCK * rng.permutation(-(-count // BLOCK))
    places = np.add.outer(blocks, np.arange(BLOCK)).ravel()
    return residuals[(places[places < count][:NULL_LENGTH] - first) % count]


class _Asked(NamedTuple):
    """What all series share."""

    factor: float
    alpha: float
    among: int

    @property
    def price(self) -> float:
        """How many times the penalty a change has to save."""
        more = 2 * math.log(max(self.among / _UNPAID, 1.0))
        return self.factor * (1 + more / _RECENT_Z**2)


class _Search:
    """The iterative search for a series' levels, which depend on the noise and vice versa."""

    def __init__(self, values: FloatArray, price: float) -> None:
        noise = max(noise_of_differences(values, few=len(values) < _ENOUGH), LEAST_NOISE)
        self.values = values
        self.cleaned = without_outliers(values, noise, _REACH)
        self.cost = price * penalty(len(values))
        self.cuts: list[int] | None = None
        self.used = self.scale = self.noise = noise
        self.correlation = 0.0
        self.settled = False

    def take(self, cuts: list[int]) -> None:
        """What was found in units of `scale`; `settled` when another look would find the same."""
        self.used = self.scale
        if cuts == self.cuts:
            self.settled = True
            return
        self.cuts = cuts
        self.correlation, self.noise = _remaining(self.cleaned, cuts)
        self.scale = self.noise * inflation(self.correlation)
        # What shows no change in units of less noise shows none in units of more.
        self.settled = not cuts and self.scale >= self.used

    def result(self, asked: _Asked) -> Segmentation:
        cuts = self._with_recent(math.sqrt(asked.price) * _RECENT_Z)
        return Segmentation(
            self._steps(self.cleaned / self.scale, cuts, asked),
            self.noise,
            self.correlation,
            _residuals(self.values, cuts) / self.noise,
        )

    def _with_recent(self, least: float) -> list[int]:
        """The cuts, and the likeliest one among the last few points if it is beyond `least`
        standard errors, by the noise that remains without it."""
        cuts = list(self.cuts or ())
        if recent := _recent(self.cleaned, cuts[-1] if cuts else 0):
            at, difference = recent
            correlation, noise = _remaining(self.cleaned, [*cuts, at])
            error = noise * inflation(correlation) * (1 + _STUDENT / len(self.values))
            if difference > least * error:
                cuts.append(at)
        return cuts

    def _steps(self, scaled: FloatArray, cuts: list[int], asked: _Asked) -> tuple[Step, ...]:
        ends = [0, *cuts, len(self.values)]
        counts = self._counts(cuts, asked.among)
        made = []
        for left, cut, right, count in zip(ends, cuts, ends[2:], counts, strict=False):
            first, last = _places(scaled[left:right])
            old, new = self.values[left:cut], self.values[cut:right]
            shift = unpaired_shift(old[-_NEAR:], new[:_NEAR], asked.alpha)
            made.append(
                Step(
                    cut,
                    min(left + first, cut),
                    max(left + last, cut),
                    widened(shift, inflation(self.correlation)),
                    len(old),
                    len(new),
                    not count,
                )
            )
        return tuple(made)

    def _counts(self, cuts: list[int], among: int) -> list[bool]:
        """Whether each change counts. Levels that are too short to confirm one are passed over: the
        changes on either side of them count together if the levels around them differ enough."""
        levels = _levels(self.values, cuts)
        counts = [False] * len(cuts)
        long = [i for i, level in enumerate(levels) if len(level) >= FEWEST_POINTS]
        for left, right in itertools.pairwise(long):
            old, new = levels[left], levels[right]
            moved = np.median(np.subtract.outer(new[:_NEAR], old[-_NEAR:]))
            size = abs(float(moved)) / self.noise
            if lasts(old, new, size, self.correlation, len(self.values), among):
                counts[left:right] = [True] * (right - left)
        return counts


def _segment_batch(series: Sequence[FloatArray], asked: _Asked) -> list[Segmentation]:
    searches = [
        _Search(values, asked.price) if len(values) >= FEWEST else None for values in series
    ]
    active = [search for search in searches if search is not None]
    for _ in range(_LOOKS):
        found = cuts_of(
            [search.cleaned / search.scale for search in active], [s.cost for s in active]
        )
        for search, cuts in zip(active, found, strict=True):
            search.take(cuts)
        active = [search for search in active if not search.settled]
    return [
        _too_short(values) if search is None else search.result(asked)
        for values, search in zip(series, searches, strict=True)
    ]


def _too_short(values: FloatArray) -> Segmentation:
    middle = float(np.median(values)) if len(values) else 0.0
    return Segmentation((), LEAST_NOISE, 0.0, (values - middle) / LEAST_NOISE)


def _levels(values: FloatArray, cuts: list[int]) -> list[FloatArray]:
    return [values[start:end] for start, end in itertools.pairwise((0, *cuts, len(values)))]


def _remaining(cleaned: FloatArray, cuts: list[int]) -> tuple[float, float]:
    """Lag-1 autocorrelation (at least 0) and standard deviation of the residuals.

    The correlation is corrected for its bias of -(1 + 3 rho) / n a level (Kendall 1954). That
    makes it so uncertain in short series that only part of it is believed there.
    """
    centred = [level - level.mean() for level in _levels(cleaned, cuts)]
    count, levels = len(cleaned), len(centred)
    power = sum(float(level @ level) for level in centred)
    noise = max(math.sqrt(power / (count - levels)), LEAST_NOISE)
    if power == 0:
        return 0.0, noise
    together = sum(float(level[1:] @ level[:-1]) for level in centred) / power
    bias = levels / count
    correlation = (together + bias) / max(1 - 3 * bias, 0.3)
    if count < _ENOUGH:
        correlation *= max(0.0, (count - _TOO_FEW) / (_ENOUGH - _TOO_FEW))
    return min(max(correlation, 0.0), _MAX_CORRELATION), noise


def _recent(values: FloatArray, start: int) -> tuple[int, float] | None:
    """The likeliest change among the last few points of the level that begins at `start`, and its
    difference in standard errors for noise of 1; None if there are too few points."""
    level = values[start:]
    sizes = np.array([size for size in _RECENT if size <= len(level) - SHORTEST], dtype=np.intp)
    if not len(sizes) or len(values) < _ENOUGH:
        return None
    sums = np.cumsum(level[::-1])
    rest = len(level) - sizes
    difference = sums[sizes - 1] / sizes - (sums[-1] - sums[sizes - 1]) / rest
    errors = np.abs(difference) / np.sqrt(1 / sizes + 1 / rest)
    best = int(np.argmax(errors))
    return len(values) - int(sizes[best]), float(errors[best])


def _places(scaled: FloatArray) -> tuple[int, int]:
    """The range that contains the single change of these points with 95 %: the first and the last
    place with a likelihood close enough to the best one's."""
    count = np.arange(1, len(scaled))
    sums = np.cumsum(scaled)
    left, total = sums[:-1], sums[-1]
    explained = left**2 / count + (total - left) ** 2 / (len(scaled) - count)
    possible = count[explained >= explained.max() - _PLACE]
    return int(possible[0]), int(possible[-1])


def _residuals(values: FloatArray, cuts: list[int]) -> FloatArray:
    return np.concatenate([level - np.median(level) for level in _levels(values, cuts)])
