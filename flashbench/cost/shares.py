"""Assign cases to devices, by their earlier times or else by their operations."""

from heapq import heapify, heapreplace

from flashbench.cost.estimate import (
    Seconds,
    Work,
    case_seconds,
    first_seconds,
    slowest_share,
    starts_seconds,
)
from flashbench.cost.forecast import Forecast, Part
from flashbench.cost.known import Basis, Experience
from flashbench.shard import Shard, cases_of_shard, equal_shards


def shards(work: Work, known: Experience, count: int) -> list[Shard]:
    """One shard per device, so that the last device finishes early.

    If similar cases were measured before: longest case first, each to the device that is free first
    (LPT; Graham 1969: at most 4/3 of the optimum). Otherwise dealt as by `--shard`. Raises
    InvalidInputError for more devices than cases.
    """
    if count == 1 or count > len(work.cases) or known.level_of(work) is Basis.GUESS:
        return equal_shards(count)
    cost = [
        work.launches * case_seconds(work, case, known) + first_seconds(work, case, known)
        for case in work.cases
    ]
    loads = [(0.0, device) for device in range(count)]
    heapify(loads)
    places: list[list[int]] = [[] for _ in range(count)]
    for place in sorted(range(len(cost)), key=lambda place: (-cost[place], place)):
        load, device = loads[0]
        places[device].append(place)
        heapreplace(loads, (load + cost[place], device))
    return [
        Shard(number, count, tuple(sorted(mine))) for number, mine in enumerate(places, start=1)
    ]


def share(found: Forecast, count: int, work: Work, known: Experience) -> None:
    """Divide a forecast's work among devices, each with all launches of its share of the cases."""
    spread = known.spread(known.level_of(work))
    dealt = [str(one) for one in shards(work, known, count)]
    shares = [cases_of_shard(work.cases, one) for one in dealt]
    found.wall_device = Seconds.about(slowest_share(shares, work, known), spread)
    more = Seconds.about((count - 1) * starts_seconds(work, known), spread)
    found.parts.append(Part("starts on the others", (count - 1) * work.launches, more))
    words = f"{count} share the cases, like this machine; each starts every launch"
    found.sources.append(("shared", words))
    found.shards, found.shares = dealt, shares
