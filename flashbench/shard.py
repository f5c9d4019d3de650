"""Shards: split a grid into whole cases for several machines, so no pair is ever split."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

from flashbench.case import Case
from flashbench.errors import InvalidInputError

_Work = TypeVar("_Work")
_Worker = TypeVar("_Worker")
_SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})(?::([0-9]{1,9}(?:,[0-9]{1,9})*))?")


@dataclass(frozen=True)
class Shard:
    """Part `index` (from 1) of `count` parts of a grid. places: its cases' places in the grid if a
    planner assigned them; otherwise they follow from index and count."""

    index: int
    count: int
    places: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `2/4`, or `2/4:0,3,5` with places; InvalidInputError with the accepted form."""
        match = _SHARD.fullmatch(text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise InvalidInputError(
                f"invalid shard {text[:100]!r}; write i/n with 1 <= i <= n, as in 1/4"
            )
        places = tuple(map(int, match[3].split(","))) if match[3] else ()
        return cls(int(match[1]), int(match[2]), places)

    @property
    def name(self) -> str:
        """Without its places."""
        return f"{self.index}/{self.count}"

    def __str__(self) -> str:
        return f"{self.name}:{','.join(map(str, self.places))}" if self.places else self.name


def equal_shards(count: int) -> list[Shard]:
    """`count` shards with about as many cases each, whatever those take."""
    return [Shard(index, count) for index in range(1, count + 1)]


def cases_of_shard(cases: Sequence[Case], shard: str) -> list[Case]:
    """The cases of a shard such as `2/4`, in the grid's order; all of them for "".

    Cases are dealt from the heaviest down, back and forth (1 2 3 3 2 1 ...). A case takes at least
    as long as its samples, and slow calls get fewer of them, so its cost is bounded whatever its
    operations: shards with equally many cases and about equal operations take about equally long.
    Depends only on the set of cases, unless the shard has places. Raises InvalidInputError for a
    shard that `Shard.parse` refuses, for more shards than cases, and for places outside the grid.
    """
    if not shard:
        return list(cases)
    wanted = Shard.parse(shard)
    if wanted.count > len(cases):
        raise InvalidInputError(
            f"shard {wanted.name}: the grid has only {len(cases)} cases; a case is never split, so "
            f"use at most {len(cases)} shards"
        )
    if wanted.places:
        if max(wanted.places) >= len(cases):
            raise InvalidInputError(f"shard {wanted.name}: the grid has only {len(cases)} cases")
        return [cases[place] for place in sorted(set(wanted.places))]
    mine = set()
    for place, case in enumerate(sorted(cases, key=lambda case: (-case.flops, case.id))):
        round_, seat = divmod(place, wanted.count)
        if (seat if round_ % 2 == 0 else wanted.count - 1 - seat) == wanted.index - 1:
            mine.add(case)
    return [case for case in cases if case in mine]


def deal(works: Sequence[_Work], workers: Sequence[_Worker]) -> list[list[tuple[_Worker, _Work]]]:
    """Deal the works in rounds in which each worker takes at most one."""
    return [
        list(zip(workers, works[start : start + len(workers)], strict=False))
        for start in range(0, len(works), len(workers))
    ]
