"""The commits of a range and their ancestry, as a matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from flashbench.arrays import BoolArray


class Node(Protocol):
    """A commit's place in history."""

    @property
    def id(self) -> str: ...

    @property
    def parents(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class CommitGraph:
    """reaches: (commits, commits); [c, x] whether x has the change of c: x is c or descends from
    it. parents: of each commit, those inside of the range. Commits are numbered parents first; the
    last one descends from all others."""

    reaches: BoolArray
    parents: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return len(self.parents)

    def ancestors(self, commit: int) -> BoolArray:
        """(commits,): the commit itself and what it descends from."""
        column: BoolArray = self.reaches[:, commit]
        return column

    def descendants(self, commit: int) -> BoolArray:
        """(commits,): the commit itself and what descends from it."""
        row: BoolArray = self.reaches[commit]
        return row


def graph_of(commits: Sequence[Node]) -> CommitGraph:
    """The graph of a range; commits: parents before children."""
    number = {commit.id: place for place, commit in enumerate(commits)}
    inside = tuple(
        tuple(number[parent] for parent in commit.parents if parent in number) for commit in commits
    )
    reaches = np.eye(len(commits), dtype=bool)
    for place, parents in enumerate(inside):
        for parent in parents:
            reaches[:, place] |= reaches[:, parent]
    return CommitGraph(reaches, inside)
