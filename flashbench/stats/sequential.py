"""Anytime-valid shift: an interval from one log-ratio per launch, valid with a look after each one.

A confidence sequence contains the true shift at all looks together with probability 1 - alpha, so
stopping at will keeps the error rate. Each interval is the set of shifts m with evidence E(m) below
1 / alpha. E(m) is a non-negative martingale with mean 1 if m is true, so by Ville's inequality it
ever reaches 1 / alpha with probability at most alpha. p is 1 / E(0) at this look; it is valid at
any stopping time, as is the smallest of several looks.

The evidence is a weighted average of the two in `stats/evidence.py`, which is a martingale too.
Source: Howard, Ramdas, McAuliffe & Sekhon (2021), arXiv 1810.08240.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from flashbench.arrays import BoolArray, FloatArray
from flashbench.stats.evidence import log_equal, log_symmetric, log_t_mixture
from flashbench.stats.family import require_level
from flashbench.stats.shift import Shift, pseudomedian

# The share of the t-mixture in the evidence; the rest is symmetric. Less finds changes later, more
# suffers from spikes.
T_SHARE = 0.75
# Launches closer together than 1/12 of their distance from "no change" (standard deviation) or 1/15
# (1.4826 median absolute deviations) may all be in one mode or on one tick of a timer. Their spread
# is not trusted: only the symmetric evidence counts.
TIGHT_DEVIATION = 12.0
_TIGHT_MEDIAN_DEVIATION = 15.0
_ROUNDED = 1e-9  # of a number of launches: 0.05 / 64 times 64 need not be 0.05
_ROUNDING = 1e-28  # of the sum of squares: smaller residuals are rounding
_POINTS = 64  # most launches used as points of the search
_FINER = 17  # points between a shift inside and one outside, in each round
_ROUNDS = 3  # of that refinement
_AT_ONCE = 2**21  # numbers held at once in simulations


@dataclass(frozen=True, slots=True)
class IntervalTerms:
    """What a case's interval takes from its family.

    alpha: 1 - confidence, already divided by the comparisons. comparisons: in the family.
    correlation: of neighbouring launches, used to whiten them. modes: some case's launches look
    like two modes, so the t-mixture counts for none.
    """

    alpha: float
    comparisons: int = 1
    correlation: float = 0.0
    modes: bool = False

    @property
    def least(self) -> int:
        """Fewest launches whose interval can be bounded."""
        if self.modes:
            return launches_needed_tight(self.alpha)
        return launches_needed_anytime(self.alpha, self.comparisons)


def anytime_shift(differences: FloatArray, terms: IntervalTerms) -> Shift:
    """The shift used by the gate after every launch; `value` is the pseudomedian.

    differences: (launches,), at least one, finite, in the order measured. Unbounded below
    `terms.least`.
    """
    return anytime_shifts(differences[None], terms)[0]


def anytime_shifts(rows: FloatArray, terms: IntervalTerms) -> list[Shift]:
    """`anytime_shift` of many cases with as many launches each. rows: (cases, launches)."""
    cases, n = rows.shape
    if n < terms.least:
        return [Shift(float(v), -math.inf, math.inf, 1.0) for v in pseudomedian(rows)]
    found = []
    for some in np.array_split(rows, _parts(cases, n)):
        found += _shifts(_Launches(some, terms.correlation, terms.modes), terms.alpha)
    return found


def _parts(cases: int, n: int) -> int:
    """The number of parts that keeps the evidence against all points in memory."""
    return max(1, min(cases, cases * 2 * min(n, _POINTS) * n // _AT_ONCE))


def _shifts(launches: "_Launches", alpha: float) -> list[Shift]:
    target = -math.log(alpha)
    value = pseudomedian(launches.rows)[:, None]
    points = (launches.turning_points(alpha), np.zeros_like(value), value)
    shifts = np.sort(np.concatenate(points, axis=1), axis=1)
    evidence = launches.log_evidence(shifts)
    inside = evidence < target
    # Skewed launches can give evidence against everything: keep their middle.
    inside |= (shifts == value) & ~inside.any(axis=1, keepdims=True)
    low, high = launches.bounds(shifts, inside, target)
    farther = np.where(value > 0, shifts <= 0, shifts >= 0)
    p = np.exp(-np.where(farther, evidence, np.inf).min(axis=1))
    p = np.where(value[:, 0] == 0, 1.0, np.minimum(p, 1.0))
    middle = np.clip(value[:, 0], low, high)
    return [Shift(*map(float, one)) for one in zip(middle, low, high, p, strict=True)]


def exceeds(rows: FloatArray, shift: float, terms: IntervalTerms) -> BoolArray:
    """Whether the interval of `anytime_shift` is above `shift`, for many draws of launches.

    rows: (draws, launches), at least one launch, finite. Returns (draws,). For simulations: gives
    `anytime_shift`'s answer for each row without computing the interval.
    """
    draws, n = rows.shape
    above = np.zeros(draws, dtype=bool)
    if n < terms.least:
        return above
    alpha, given = terms.alpha, (terms.correlation, terms.modes)
    target = -math.log(alpha)
    near = _Launches(rows, *given).log_evidence(np.full((draws, 1), shift))[:, 0]
    candidates = np.flatnonzero((near >= target) & (np.median(rows, axis=1) > shift))
    for some in np.array_split(candidates, _parts(len(candidates), n)):
        launches = _Launches(rows[some], *given)
        shifts = launches.turning_points(alpha)
        # Shifts farther off need evidence against them too.
        evidence = np.where(shifts <= shift, launches.log_evidence(shifts), np.inf)
        above[some] = (evidence.min(axis=1) >= target) & (pseudomedian(rows[some]) > shift)
    return above


@lru_cache(maxsize=256)
def launches_needed_anytime(alpha: float, comparisons: int = 1) -> int:
    """Fewest launches whose interval can be bounded, if no case shows two modes.

    The n launches of a case in two modes are all in one with probability 2 / 2^n. If many cases
    have modes, this is likelier for any of them, but the others show theirs
    (`stats/modes.py:log_modes_in_any`). One case, or two, do not. So 2 / 2^n, twice that in a
    family, must be at most the family's alpha, which is `comparisons` times alpha. And even
    launches without spread must be enough evidence. Raises ValueError unless alpha lies between 0
    and 1.
    """
    require_level(alpha)
    n = max(2, math.ceil(math.log2(2 * min(comparisons, 2) / (alpha * comparisons)) - _ROUNDED))
    while math.isinf(_critical_t(n, float(n), alpha * T_SHARE)):
        n += 1
    return n


@lru_cache(maxsize=256)
def launches_needed_tight(alpha: float) -> int:
    """Fewest launches that suffice for the symmetric evidence, which tight launches need. Raises
    ValueError unless alpha lies between 0 and 1."""
    require_level(alpha)
    n = 1
    while log_equal(n) < -math.log(alpha):
        n += 1
    return n


def expected_half_width(n: int, terms: IntervalTerms) -> float:
    """Half the width of the interval from n normal launches whose sample spread is the true one, in
    standard deviations of a launch; infinite if n is too small. That of the t-mixture alone,
    slightly wider than the average's."""
    correlation = terms.correlation
    total = 1 - correlation**2 + (n - 1) * (1 - correlation) ** 2
    if n < terms.least:
        return math.inf
    innovation = 1 - correlation**2
    return _critical_t(n, total, terms.alpha * T_SHARE) * math.sqrt((n - 1) * innovation / total)


def spread(differences: FloatArray) -> float:
    """The standard deviation of a launch relevant to the interval: if spikes double it, that of the
    other launches. differences: (launches,), at least two."""
    return float(spreads(differences[None])[0])


def spreads(rows: FloatArray) -> FloatArray:
    """`spread` of many cases with as many launches each. rows: (cases, launches)."""
    middle = np.median(rows, axis=1, keepdims=True)
    usual = 1.4826 * np.median(np.abs(rows - middle), axis=1)
    deviation = np.std(rows, axis=1, ddof=1)
    return np.where((usual > 0) & (2 * usual < deviation), usual, deviation)


@dataclass(frozen=True)
class _Launches:
    """Rows of launches, (draws, launches), with cached values for evidence at many shifts."""

    rows: FloatArray
    correlation: float = 0.0
    modes: bool = False  # the t-mixture does not count

    @cached_property
    def weights(self) -> FloatArray:
        """(launches,): the factor of the shift in each whitened launch."""
        weights = np.full(self.rows.shape[1], 1 - self.correlation)
        weights[0] = math.sqrt(1 - self.correlation**2)
        return weights

    @cached_property
    def whitened(self) -> FloatArray:
        """The rows as independent innovations of an AR(1) process with known correlation."""
        first = math.sqrt(1 - self.correlation**2) * self.rows[:, :1]
        return np.concatenate((first, self.rows[:, 1:] - self.correlation * self.rows[:, :-1]), 1)

    @cached_property
    def total(self) -> float:
        return float(self.weights @ self.weights)

    @cached_property
    def mean(self) -> FloatArray:
        """(draws,)."""
        # Not with @, whose rounding depends on the number of rows.
        mean: FloatArray = (self.whitened * self.weights).sum(axis=1) / self.total
        return mean

    @cached_property
    def error(self) -> FloatArray:
        """(draws,): the mean's standard error times sqrt(launches - 1)."""
        residual = ((self.whitened - self.mean[:, None] * self.weights) ** 2).sum(axis=1)
        residual[residual <= _ROUNDING * (self.whitened**2).sum(axis=1)] = 0.0
        error: FloatArray = np.sqrt(residual / self.total)
        return error

    def log_evidence(self, shifts: FloatArray) -> FloatArray:
        """log evidence against each shift. shifts: (draws, m). Returns (draws, m)."""
        n = self.rows.shape[1]
        distance = np.abs(self.mean[:, None] - shifts)
        error = np.broadcast_to(self.error[:, None], distance.shape)
        far = np.where(distance > 0, np.inf, 0.0)  # without any spread
        t = np.divide(distance, error, out=far, where=error > 0)
        symmetric = log_symmetric(self.whitened[:, None, :] - shifts[..., None] * self.weights)
        mixed = np.logaddexp(
            math.log(T_SHARE) + log_t_mixture(t, n, self.total), math.log1p(-T_SHARE) + symmetric
        )
        doubted = _tight(self.rows)[:, None] | self.modes
        return np.where(doubted, np.minimum(mixed, symmetric), mixed)

    def turning_points(self, alpha: float) -> FloatArray:
        """(draws, m): shifts between which the evidence crosses 1 / alpha at most once; it suffices
        against the outermost, if it can.

        The evidence grows from the middle outwards, except where spikes change sides. So the points
        are the launches (or some of very many), the midpoints of neighbours, and points beyond all
        launches where the t-mixture alone suffices, or where all launches have one sign and about
        the same distance.
        """
        n = self.rows.shape[1]
        chosen = np.linspace(0, n - 1, min(n, _POINTS)).round().astype(np.intp)
        ordered = np.sort(self.rows, axis=1)[:, chosen]
        middles = (ordered[:, 1:] + ordered[:, :-1]) / 2
        tiny = 1e-12 * np.abs(ordered).max(axis=1) + np.finfo(float).tiny
        off = 4 * (ordered[:, -1] - ordered[:, 0]) + tiny
        critical = _critical_t(n, self.total, alpha * T_SHARE)
        half = critical * self.error if math.isfinite(critical) else 0.0
        low = np.minimum(ordered[:, 0] - off, self.mean - half)
        high = np.maximum(ordered[:, -1] + off, self.mean + half)
        return np.concatenate((low[:, None], ordered, middles, high[:, None]), axis=1)

    def bounds(
        self, shifts: FloatArray, inside: BoolArray, target: float
    ) -> tuple[FloatArray, FloatArray]:
        """(draws,) each: next to the outermost shifts inside, the shifts with evidence `target`;
        infinite if there are none. shifts, ascending, inside: (draws, m)."""
        draws, last = np.arange(len(shifts))[:, None], shifts.shape[1] - 1
        first = np.argmax(inside, axis=1)
        final = last - np.argmax(inside[:, ::-1], axis=1)
        outer = np.stack((np.maximum(first - 1, 0), np.minimum(final + 1, last)), axis=1)
        outside = shifts[draws, outer]
        nearer = shifts[draws, np.stack((first, final), axis=1)]
        for _ in range(_ROUNDS):
            between = np.linspace(outside, nearer, _FINER, axis=2)
            evidence = self.log_evidence(between.reshape(len(shifts), -1)).reshape(between.shape)
            # From outside, the last point that is not inside.
            at = _FINER - 2 - np.argmax(evidence[..., -2:0:-1] >= target, axis=2)
            at = np.where((evidence[..., 1:-1] >= target).any(axis=2), at, 0)
            outside = np.take_along_axis(between, at[..., None], axis=2)[..., 0]
            nearer = np.take_along_axis(between, at[..., None] + 1, axis=2)[..., 0]
        outside = np.nextafter(outside, nearer)  # an excluded shift is not in the interval
        low = np.where(first > 0, outside[:, 0], -np.inf)
        return low, np.where(final < last, outside[:, 1], np.inf)


def _tight(rows: FloatArray) -> BoolArray:
    """rows: (draws, launches). Returns (draws,)."""
    deviation = np.std(rows, axis=1, ddof=1)
    middle = np.median(rows, axis=1)
    usual = 1.4826 * np.median(np.abs(rows - middle[:, None]), axis=1)
    tiny = 1e-14 * np.abs(rows).max(axis=1)  # rounding of equal launches
    tight: BoolArray = (
        (np.abs(np.mean(rows, axis=1)) >= TIGHT_DEVIATION * deviation)
        | (deviation <= tiny)
        | (usual <= tiny)
        | (np.abs(middle) >= _TIGHT_MEDIAN_DEVIATION * usual)
    )
    return tight


@lru_cache(maxsize=4096)
def _critical_t(n: int, total: float, alpha: float) -> float:
    """The t at which the t-mixture reaches 1 / alpha, or 1e-12 of it above; infinite if none does.
    By false position (it grows with t), as the Illinois algorithm does it."""

    def excess(t: float) -> float:
        return float(log_t_mixture(np.array(t), n, total)) + math.log(alpha)

    if excess(math.inf) < 0:
        return math.inf
    low, high = 0.0, 1.0
    while (above := excess(high)) < 0:
        low, high = high, 2 * high
    below, kept = excess(low), 0
    while above > 0 and high - low > 1e-12 * high:
        t = high - above * (high - low) / (above - below)
        if (found := excess(t)) < 0:
            low, below = t, found
            above, kept = above / (2 if kept > 0 else 1), 1
        else:
            high, above = t, found
            below, kept = below / (2 if kept < 0 else 1), -1
    return high
