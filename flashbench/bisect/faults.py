"""Exact bisection: the last commit that worked and the first that did not.

A build's answer is final, but answers need not be in order: a commit may be broken and repaired
before the one that broke things for good, and a side branch says nothing about the main one. So
halving comes first, as in `git bisect`, and finds some working commit followed by one that does not
work; then every commit that could still work is tried, newest first, until none is left. If one
works, all its ancestors are settled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flashbench.arrays import BoolArray
from flashbench.bisect.graph import CommitGraph

# By commit number: True works, False does not, None: unknown.
Try = Callable[[Sequence[int]], Mapping[int, bool | None]]


@dataclass(frozen=True)
class Fault:
    """The answer; None means the good end. last: the newest commit that works. first: the one since
    which nothing works. before: the newest working ancestor of `first`; with merges it may differ
    from `last`. candidates: `first` and those before it that may or may not work. untried: how many
    might work but were not tried."""

    last: int | None
    first: int
    before: int | None
    candidates: tuple[int, ...]
    untried: int


@dataclass
class FaultSearch:
    """graph: the range, whose last commit does not work. answers: known so far."""

    graph: CommitGraph
    attempt: Try
    jobs: int = 1
    answers: dict[int, bool | None] = field(default_factory=dict)

    def halve(self) -> None:
        """Find a commit that works, or the good end, followed by one that does not."""
        self.answers.setdefault(self.graph.size - 1, False)
        while True:
            suspects = self._narrowed()
            places = [x for x in np.flatnonzero(suspects).tolist() if x not in self.answers]
            if not places:
                return
            self.answers |= self.attempt(self._splitting(places, suspects))

    def prove(self) -> None:
        """Try every commit that might still work, newest first."""
        while places := np.flatnonzero(self._open()).tolist():
            self.answers |= self.attempt(places[: -self.jobs - 1 : -1])

    def answer(self) -> Fault:
        """The answer from what is known; requires a call of `halve`, but not of `prove`."""
        broken = ~self._settled()
        failed = [x for x in np.flatnonzero(broken) if self.answers.get(int(x)) is False]
        reaches = self.graph.reaches[np.ix_(failed, failed)]
        first_ones = [x for x, n in zip(failed, reaches.sum(axis=0), strict=True) if n == 1]
        # If there are several, the one that explains most failures.
        first = int(max(first_ones, key=lambda x: (self.graph.reaches[x] & broken).sum()))
        works = np.array([self.answers.get(x) is True for x in range(self.graph.size)])
        above = self.graph.ancestors(first)
        unknown = np.array([self.answers.get(x, True) is None for x in range(self.graph.size)])
        hidden = np.flatnonzero(unknown & above & broken).tolist()
        return Fault(
            last=_newest(works),
            first=first,
            before=_newest(works & above),
            candidates=(*hidden, first),
            untried=int(self._open().sum()),
        )

    def _settled(self) -> BoolArray:
        """(commits,): those that work, and their ancestors."""
        works = [x for x, answer in self.answers.items() if answer]
        return np.asarray(self.graph.reaches[:, works].any(axis=1))

    def _open(self) -> BoolArray:
        """(commits,): not tried, and not an ancestor of a working one."""
        left = ~self._settled()
        left[list(self.answers)] = False
        return left

    def _narrowed(self) -> BoolArray:
        """(commits,): those that may have broken it, if it stayed broken since."""
        suspects: BoolArray = ~self._settled()
        for commit in sorted(self.answers, reverse=True):
            if self.answers[commit] is False and suspects[commit]:
                suspects[~self.graph.ancestors(commit)] = False
        return suspects

    def _splitting(self, places: Sequence[int], suspects: BoolArray) -> list[int]:
        """`jobs` places that cut the suspects into parts as equal as possible."""
        counts = (self.graph.reaches[:, places] & suspects[:, None]).sum(axis=0)
        chosen: dict[int, None] = {}
        for part in range(1, min(self.jobs, len(places)) + 1):
            wanted = suspects.sum() * part / (self.jobs + 1)
            nearest = np.argsort(np.abs(counts - wanted), kind="stable")
            chosen[next(int(places[n]) for n in nearest if int(places[n]) not in chosen)] = None
        return list(chosen)


def _newest(chosen: BoolArray) -> int | None:
    places = np.flatnonzero(chosen)
    return int(places[-1]) if len(places) else None
