"""The cases of each of several devices, by their earlier times."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import make_cases

from flashbench.cost.estimate import (
    Work,
    case_seconds,
    first_seconds,
    slowest_share,
    starts_seconds,
)
from flashbench.cost.known import Experience
from flashbench.cost.shares import shards
from flashbench.cost.store import CandidateCost, CaseCost, MachineCosts
from flashbench.errors import InvalidInputError
from flashbench.shard import Shard, cases_of_shard, equal_shards


def known(seconds: list[float]) -> Experience:
    """A device on which the sample cases took so long in each launch."""
    speed = CandidateCost(call=1e-3, fixed=0.0, turn=0.0, stretch=1.0)
    cases = {
        case.id: CaseCost(every=one, first=0.0, candidates={"sdpa": speed})
        for case, one in zip(make_cases(len(seconds)), seconds, strict=True)
    }
    return Experience("cpu", MachineCosts(device="cpu", name="x", threads=1, cases=cases))


def work_of(count: int) -> Work:
    return Work(make_cases(count), ["sdpa"], launches=3, samples=10)


many = st.lists(st.floats(0.01, 100), min_size=2, max_size=30)


@given(many, st.integers(1, 8))
def test_every_case_has_one_device(seconds: list[float], count: int) -> None:
    """None is left out or measured twice, and no device is idle."""
    count = min(count, len(seconds))
    work = work_of(len(seconds))
    found = shards(work, known(seconds), count)
    shares = [cases_of_shard(work.cases, str(one)) for one in found]
    assert sorted(chain(*shares)) == sorted(work.cases)
    assert all(shares)
    assert [Shard.parse(str(one)) for one in found] == found


@given(many, st.integers(2, 8))
def test_the_last_device_ends_in_time(seconds: list[float], count: int) -> None:
    """At most 4/3 of what no assignment can beat, beside the starts of launches."""
    count = min(count, len(seconds))
    work, there = work_of(len(seconds)), known(seconds)
    shares = [cases_of_shard(work.cases, str(one)) for one in shards(work, there, count)]
    cost = sorted(
        3 * case_seconds(work, case, there) + first_seconds(work, case, there)
        for case in work.cases
    )
    pair = sum(cost[-count - 1 : len(cost) - count + 1]) if len(cost) > count else 0.0
    least = max(sum(cost) / count, cost[-1], pair)
    starts = starts_seconds(work, there)
    assert slowest_share(shares, work, there) - starts <= 4 / 3 * least * (1 + 1e-9)


def test_one_long_case_is_alone() -> None:
    """Where dealing by operations would give its device as many cases as any other."""
    seconds = [1.0] * 8 + [8.0]
    found = shards(work_of(9), known(seconds), 2)
    assert sorted(len(one.places) for one in found) == [1, 8]


def test_without_times_they_are_as_by_hand() -> None:
    """So are those of one device."""
    assert shards(work_of(6), Experience("cpu"), 3) == equal_shards(3)
    assert shards(work_of(2), known([1.0, 2.0]), 1) == equal_shards(1)


def test_places_outside_the_grid_are_refused() -> None:
    """As a damaged file could have them."""
    with pytest.raises(InvalidInputError, match="only 3 cases"):
        cases_of_shard(make_cases(3), "1/2:0,3")
