"""Bisection on generated histories: what experiments/bisect_commits.py tells at length."""

from collections.abc import Sequence
from dataclasses import dataclass

import bisect_commits as simulated
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbench.bisect.culprit import LEAST_LAUNCHES, Search
from flashbench.bisect.faults import FaultSearch
from flashbench.bisect.graph import CommitGraph, graph_of

TRIALS = 25


@dataclass(frozen=True)
class Made:
    id: str
    parents: tuple[str, ...]


def line(size: int) -> CommitGraph:
    return graph_of([Made(str(n), (str(n - 1),)) for n in range(size)])


@pytest.mark.parametrize("merges", [False, True])
def test_slowdown_is_found_among_broken_commits(merges: bool) -> None:
    """3 % at 1 % noise, 128 commits, 30 % of them broken: right in nearly all trials, and within 25
    launches at the median. At a true rate of 97 %, fewer than 22 of 25 come once in 200 tests."""
    rng = np.random.default_rng([3, merges])
    done = [simulated.speed_trial(rng, merges) for _ in range(TRIALS)]
    assert sum(trial.right for trial in done) >= 22
    assert np.median([trial.launches for trial in done]) <= 25


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("merges", [False, True])
def test_last_that_works_is_always_found(merges: bool, jobs: int) -> None:
    """Whatever broke and was repaired, it reports the last commit that works, and of the first
    that does not nothing that descends works."""
    rng = np.random.default_rng([4, merges])
    assert all(simulated.fault_trial(rng, merges, jobs).right for _ in range(TRIALS))


@given(st.lists(st.sampled_from([True, False, None]), max_size=30), st.integers(1, 5))
def test_every_line_of_commits_has_an_exact_answer(known: list[bool | None], jobs: int) -> None:
    """On a line the last that works is the last there is, and the candidates follow it."""
    answers = [*known, False]
    search = FaultSearch(line(len(answers)), lambda x: {n: answers[n] for n in x}, jobs)
    search.halve()
    search.prove()
    found = search.answer()
    works = [n for n, answer in enumerate(answers) if answer]
    last = works[-1] if works else None
    assert (found.last, found.before, found.untried) == (last, last, 0)
    begin = 0 if last is None else last + 1
    assert found.first == answers.index(False, begin)
    assert found.candidates == tuple(range(begin, found.first + 1))


def test_halving_alone_tries_few() -> None:
    """Where nothing was repaired, halving finds the boundary of 128 commits in 7 tries."""
    tried: list[int] = []

    def attempt(places: Sequence[int]) -> dict[int, bool | None]:
        tried.extend(places)
        return {place: place < 90 for place in places}

    search = FaultSearch(line(128), attempt)
    search.halve()
    found = search.answer()
    assert (found.last, found.first) == (89, 90)
    assert len(tried) == 7
    assert found.untried == 128 - 91 - sum(place > 90 for place in tried) - (127 not in tried)


def test_side_branch_is_named_where_it_broke() -> None:
    """A break on a side branch is found there, though the main branch works up to the merge."""
    made = [("m1", ("g",)), ("s1", ("g",)), ("s2", ("s1",)), ("m2", ("m1",)), ("e", ("m2", "s2"))]
    graph = graph_of([Made(name, parents) for name, parents in made])
    fails = {2, 4}
    search = FaultSearch(graph, lambda x: {n: n not in fails for n in x})
    search.halve()
    search.prove()
    found = search.answer()
    assert (found.first, found.before, found.last) == (2, 1, 3)


def searched(graph: CommitGraph, culprit: int, unusable: set[int], noise: float = 0.0) -> Search:
    """A search that ended, by launches without surprises."""
    search = Search(graph, np.ones(graph.size), 0.05)
    rng = np.random.default_rng(0)
    has = graph.descendants(culprit)
    for _ in range(3):
        search.record(graph.size - 1, 0.05 + noise * rng.standard_normal())
    for _ in range(200):
        place = search.next(0.95)
        if place is None:
            return search
        if place in unusable:
            search.skip(place)
        else:
            search.record(place, 0.05 * has[place] + noise * rng.standard_normal())
    raise AssertionError("no end")


def test_broken_commits_hide_candidates() -> None:
    """Where those before the first slow one cannot be measured, all of them are candidates."""
    search = searched(line(32), 10, {8, 9, 10, 11}, 0.005)
    found, probability = search.answer()
    assert found == [8, 9, 10, 11, 12]
    assert probability >= 0.95


def test_one_launch_is_never_trusted() -> None:
    """Both sides of the answer have two launches at least, even where there is no noise."""
    search = searched(line(64), 20, set())
    assert search.answer()[0] == [20]
    assert min(len(search.launches[place]) for place in (19, 20)) >= LEAST_LAUNCHES


def test_those_asked_for_next_are_spread() -> None:
    """Three commits to build at once are the one in the middle and those that either answer leads
    to; one that cannot be measured is none of them."""
    search = Search(line(64), np.ones(64), 0.05)
    assert search.next(0.95) == 31
    assert search.spread(3) == [15, 31, 47]
    search.skip(31)
    assert 31 not in search.spread(3)
    for place in range(64):
        search.skip(place)
    assert search.spread(3) == []


def test_a_wild_launch_does_not_decide() -> None:
    """One launch ten times off moves the probability no more than one that is clearly slow."""
    graph = line(16)

    def after(value: float) -> np.ndarray:
        search = Search(graph, np.ones(16), 0.03)
        for known in (0.028, 0.032, 0.03):
            search.record(15, known)
        search.record(7, value)
        return search.probabilities()

    assert after(0.3) == pytest.approx(after(0.06))


def test_commits_that_change_nothing_are_no_candidates() -> None:
    """A commit whose files are those of its parents is not the culprit, whatever is measured."""
    graph = line(8)
    weights = np.array([1.0, 0, 0, 1, 0, 0, 1, 0])
    search = Search(graph, weights, 0.03)
    search.record(7, 0.03)
    assert np.flatnonzero(search.probabilities()).tolist() == [0, 3, 6]
