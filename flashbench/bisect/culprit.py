"""Bayesian bisection: which commit made the last one slower, from noisy launches.

Every commit of the range is a hypothesis: it made itself and all its descendants slower by the same
factor. A launch of commit x yields log(time of x / time of the good commit), which is around 0 if x
lacks the change and around the slowdown if x has it. The slowdown and the noise, the same for all,
are unknown and integrated out in closed form (a normal-inverse-gamma prior), so the posterior over
commits is exact for normal noise; each launch's evidence is clipped, so no single one can decide.

The next commit is the one whose launch is expected to be most informative: its odds of having the
change are nearest to even. The scheme is that of git_bayesect (S. Jain, 2026, a posterior over
commits and greedy entropy, with unknown rates integrated out), with times instead of passes and
fails, and any history instead of a line of commits; conjugacy: Murphy, "Conjugate Bayesian analysis
of the Gaussian distribution" (2007).
"""

from dataclasses import dataclass, field

import numpy as np

from flashbench.arrays import BoolArray, FloatArray
from flashbench.bisect.graph import CommitGraph

_SLOW_PRIOR = 0.05  # weight of the prior in launches: the bad commit's own show the slow level
_SHAPE, _SCALE = 1.0, 1e-6  # inverse gamma of the noise's variance: around 0.1 %, next to nothing
_NEARLY_BEST = 0.05  # bits: a tie between a commit measured before and one not yet measured
LEAST_LAUNCHES = 2  # on each side of the answer: one launch is never trusted


@dataclass
class Search:
    """The state of a bisection; nothing here builds or measures.

    weights: (commits,), prior odds of being the culprit; 0 for those that change nothing measured.
    slowdown: log(time of bad / time of good), above 0, from the comparison of the two ends: a
    launch's evidence is clipped to within one slowdown of 0 and of this value.
    """

    graph: CommitGraph
    weights: FloatArray
    slowdown: float
    launches: dict[int, list[float]] = field(default_factory=dict)
    unusable: set[int] = field(default_factory=set)

    def record(self, commit: int, log_ratio: float) -> None:
        """Record the result of one launch of a commit."""
        self.launches.setdefault(commit, []).append(log_ratio)

    def skip(self, commit: int) -> None:
        """Mark a commit that cannot be measured."""
        self.unusable.add(commit)

    def probabilities(self) -> FloatArray:
        """(commits,): each one's probability of being the culprit."""
        size = self.graph.size
        counts, sums = np.zeros(size), np.zeros(size)
        squares = 0.0
        for commit, values in self.launches.items():
            clipped = np.clip(values, -self.slowdown, 2 * self.slowdown)
            counts[commit], sums[commit] = len(clipped), clipped.sum()
            squares += float(clipped @ clipped)
        slow, slow_sum = self.graph.reaches @ counts, self.graph.reaches @ sums
        rest = squares - slow_sum**2 / (_SLOW_PRIOR + slow)
        log_odds = -(_SHAPE + counts.sum() / 2) * np.log(_SCALE + np.maximum(rest, 0) / 2)
        log_odds -= np.log(_SLOW_PRIOR + slow) / 2
        log_odds = np.where(self.weights > 0, log_odds, -np.inf)
        odds: FloatArray = self.weights * np.exp(log_odds - log_odds.max())
        odds /= odds.sum()
        return odds

    def answer(self) -> tuple[list[int], float]:
        """The likeliest commits that no measurable commit separates, and the probability that the
        culprit is among them."""
        probabilities = self.probabilities()
        usable = self._usable()
        signature = self.graph.reaches[:, usable]
        best = int(np.argmax(self._summed(probabilities, signature)))
        alike = (signature == signature[best]).all(axis=1) & (self.weights > 0)
        return np.flatnonzero(alike).tolist(), float(probabilities[alike].sum())

    def next(self, confidence: float) -> int | None:
        """The next commit to measure; None if the answer is sure enough, or nothing is left."""
        usable = self._usable()
        if not usable.any():
            return None
        probabilities = self.probabilities()
        found, probability = self.answer()
        if probability >= confidence:
            return self._unproven(found[0], usable)
        share = self.graph.reaches.T @ probabilities  # entropy of the odds that x has the change
        entropy = np.where(usable, _entropy(share), -1.0)
        best = float(entropy.max())
        if best <= 0:
            return None
        measured = [x for x in self.launches if usable[x] and entropy[x] >= best - _NEARLY_BEST]
        return max(measured, key=entropy.__getitem__) if measured else int(np.argmax(entropy))

    def spread(self, count: int) -> list[int]:
        """Up to `count` commits that cut the odds into parts as equal as possible: those likely to
        be needed next, whatever the launches show."""
        usable = np.flatnonzero(self._usable())
        share = (self.graph.reaches.T @ self.probabilities())[usable]
        wanted = np.arange(1, count + 1) / (count + 1)
        nearest = np.abs(share[None, :] - wanted[:, None]).argmin(axis=1) if usable.size else []
        return list(dict.fromkeys(int(usable[place]) for place in nearest))

    def _unproven(self, culprit: int, usable: BoolArray) -> int | None:
        """A commit next to the answer, on either side, with too few launches of its own."""
        has = self.graph.descendants(culprit)
        first = self._ends(has & usable, oldest=True)
        last = self._ends(~has & usable & self._below(culprit), oldest=False)
        for commit in (*first, *last):
            if len(self.launches.get(commit, ())) < LEAST_LAUNCHES:
                return commit
        return None

    def _below(self, culprit: int) -> BoolArray:
        """(commits,): the culprit's ancestors."""
        below: BoolArray = self.graph.ancestors(culprit)
        return below

    def _ends(self, chosen: BoolArray, *, oldest: bool) -> list[int]:
        """The chosen commits without a chosen ancestor (oldest) or descendant."""
        places = np.flatnonzero(chosen)
        reaches = self.graph.reaches[np.ix_(places, places)]
        others = reaches.sum(axis=0 if oldest else 1) == 1
        found: list[int] = places[others].tolist()
        return found

    def _usable(self) -> BoolArray:
        usable = np.ones(self.graph.size, dtype=bool)
        usable[list(self.unusable)] = False
        return usable

    @staticmethod
    def _summed(probabilities: FloatArray, signature: BoolArray) -> FloatArray:
        """(commits,): the total probability of all with the same signature."""
        _, group = np.unique(signature, axis=0, return_inverse=True)
        group = group.reshape(-1)
        total = np.bincount(group, weights=probabilities).astype(np.float64)
        return total[group]


def _entropy(share: FloatArray) -> FloatArray:
    inside = np.clip(share, 1e-300, 1 - 1e-16)
    bits: FloatArray = -(inside * np.log2(inside) + (1 - inside) * np.log2(1 - inside))
    return np.where((share <= 0) | (share >= 1), 0.0, bits)
