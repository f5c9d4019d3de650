"""Evidence against a shift, from one log-ratio per launch: non-negative martingales with mean 1 if
the shift is true.

symmetric   exact for any noise that is symmetric about the shift.
t_mixture   exact for normal noise; finds a clear change sooner; fooled by launches in one mode.

The symmetric one bets on each launch's sign, a fair coin given all distances so far, on which the
stake may depend. It bets most at usual distances and nothing far out, so spikes neither hide a
change nor create one. (A capital process as in Shafer & Vovk, Game-Theoretic Foundations; the
weight is Tukey's biweight.)

t_mixture: Lai (1976), Ann. Statist. 4; Wang & Ramdas (2023), arXiv 2310.03722; the moment prior of
Johnson & Rossell (2010), JRSS B 72.
"""

import math

import numpy as np

from flashbench.arrays import FloatArray

Prior = tuple[tuple[float, float], ...]
# (weight, scale): the prior of shift / standard deviation is a mixture of moment priors, each with
# its maximum at sqrt(2) times its scale, and 0 at "no change". One for changes near the noise, one
# for changes far above it; tuned by experiments/sequential_power.py.
_PRIOR: Prior = ((2 / 3, 0.8), (1 / 3, 2.5))
# Bets on the sign: the stakes for a launch at the median distance, and the distance, in medians,
# from which there is none. Chosen by experiments/sequential_power.py.
_BETS = (0.35, 1.2, 4.0)
_FARTHEST = 3.0
# The median distance is updated after this many launches and their doublings.
_MARKS = (1, 2, 3, 4, 6)


def log_symmetric(rows: FloatArray) -> FloatArray:
    """log evidence that independent launches, in the order measured, are not symmetric about 0.

    rows: (..., launches), at least one, finite. Returns (...,). A mixture of bets with three stakes
    on either sign. A launch at 0 does not count.
    """
    launches = rows.shape[-1]
    distance = np.abs(rows)
    usual = np.empty_like(distance)
    marks = _marks(launches)
    for mark, until in zip(marks, [*marks[1:], launches + 1], strict=True):
        usual[..., mark - 1 : until - 1] = _median(distance[..., :mark])[..., None]
    relative = np.divide(distance, usual, out=np.full_like(distance, np.inf), where=usual > 0)
    relative = np.minimum(relative, _FARTHEST)
    weight = relative * (1 - (relative / _FARTHEST) ** 2) ** 2
    balance = np.copysign(weight, rows).sum(axis=-1)
    terms = []
    for size in _BETS:
        # A stake of tanh(x) gains log(1 + tanh(x)) = x - log(cosh(x)), or loses x + log(cosh(x)).
        fair = np.log(np.cosh(size * weight)).sum(axis=-1)
        terms += [size * balance - fair, -size * balance - fair]
    evidence: FloatArray = np.logaddexp.reduce(terms, axis=0) - math.log(len(terms))
    return evidence


def log_equal(launches: int) -> float:
    """log evidence against symmetry about 0 of this many equal launches that are not 0."""
    return float(log_symmetric(np.ones(launches)))


def log_t_mixture(
    t: FloatArray, n: int, total: float | FloatArray, prior: Prior = _PRIOR
) -> FloatArray:
    """log evidence of the t-mixture against 0 after n launches. t: |mean| in units of its own
    standard error times sqrt(n - 1), may be infinite; total: sum of squared weights, n for
    independent launches; prior: (weight, scale) of each moment prior.

    With a N(0, c^2) prior the evidence is (1 + total c^2)^(-1/2) rest^(-n/2) (Lai); a moment prior,
    which is shift^2 times that, multiplies it by the posterior mean of shift^2 / c^2.
    """
    terms = []
    # The share of the sum of squares about the mean, 1 / (1 + t^2), without overflow.
    share = 1 / (1 + np.square(np.minimum(t, 1e100)))
    for weight, scale in prior:
        spread = 1 + total * scale**2
        rest = share + (1 - share) / spread
        moment = (1 + n * (1 - rest) / rest) / spread
        terms.append(math.log(weight) - (np.log(spread) + n * np.log(rest)) / 2 + np.log(moment))
    evidence: FloatArray = np.logaddexp.reduce(terms, axis=0)
    return evidence


def _median(x: FloatArray) -> FloatArray:
    """np.median over the last axis, in half the time: finite numbers."""
    middle = (x.shape[-1] - 1) // 2
    last = x.shape[-1] // 2
    inner = np.partition(x, (middle, last), axis=-1)
    median: FloatArray = (inner[..., middle] + inner[..., last]) / 2
    return median


def _marks(launches: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, 24 ... up to the number of launches."""
    marks = list(_MARKS)
    while marks[-1] < launches:
        marks.append(2 * marks[-2])
    return [mark for mark in marks if mark <= launches]
