"""The planner: more work never takes less, and what fits a budget does."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from flashbench.case import Case
from flashbench.cost.estimate import (
    Around,
    Speed,
    Start,
    Work,
    case_seconds,
    cases_within,
    first_seconds,
    launches_within,
    slowest_share,
    total_seconds,
)
from flashbench.cost.known import Basis, Experience
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import Shape
from flashbench.shard import Shard, cases_of_shard

CASES = [
    attention_case(Shape(1, heads, heads, length, length, 64), dtype, causal, "cpu")
    for heads in (1, 8)
    for length in (32, 256, 2048)
    for dtype in ("fp32", "bf16")
    for causal in (False, True)
]
GUESS = Experience("cpu")


class Exact:
    """A machine where all is known: 1 ms a call, 10 ms of checks, 2 ms a turn."""

    def speed(self, case: Case, spec: str) -> Speed:
        return Speed(1e-3, 10e-3, 2e-3)

    def around(self, case: Case) -> Around:
        return Around(0.1, 0.5)

    def start(self, processes: int, candidates: Sequence[str]) -> Start:
        return Start(3.0 * processes, 1.0 * processes)


works = st.builds(
    Work,
    cases=st.lists(st.sampled_from(CASES), unique=True, max_size=8),
    candidates=st.lists(st.sampled_from(["sdpa", "sdpa:math", "mine"]), min_size=1, max_size=4),
    launches=st.integers(0, 40),
    samples=st.integers(2, 200),
    min_sample_seconds=st.none() | st.floats(1e-4, 1e-2),
    metrics=st.integers(1, 4),
    processes=st.integers(1, 3),
    first=st.booleans(),
    fresh=st.sampled_from([0, 1, 40]),
)


def test_seconds_are_counted_by_the_rule_of_the_samples() -> None:
    """40 samples of 2 ms in 8 turns, twice; with start, inputs and the first launch's checks."""
    work = Work(CASES[:1], ["sdpa", "mine"], launches=10, samples=40)
    each = 0.1 + 2 * (10e-3 + 8 * 2e-3 + 40 * 2e-3)
    assert round(case_seconds(work, CASES[0], Exact()), 9) == round(each, 9)
    assert round(total_seconds(work, Exact()), 9) == round(3.0 + 9 * 1.0 + 10 * each + 0.5, 9)


def test_slow_calls_get_the_samples_that_there_is_time_for() -> None:
    """A call of 3 s is sampled twice, not 40 times: the clock allows 2 s."""

    class Slow(Exact):
        def speed(self, case: Case, spec: str) -> Speed:
            return Speed(3.0, 0.0, 0.0)

    work = Work(CASES[:1], ["sdpa"], launches=1, samples=40)
    assert round(case_seconds(work, CASES[0], Slow()), 9) == 0.1 + 6.0


@given(works, st.sampled_from(CASES))
def test_a_case_more_takes_more(work: Work, case: Case) -> None:
    """Never less, whatever the rest is; and its own seconds, where it is new."""
    more = replace(work, cases=[*work.cases, case])
    assert total_seconds(more, GUESS) >= total_seconds(work, GUESS)
    if work.launches:
        assert total_seconds(more, GUESS) > 0


@given(works, st.integers(1, 20))
def test_launches_more_take_more(work: Work, more: int) -> None:
    """By as much as a later launch takes each."""
    longer = replace(work, launches=work.launches + more)
    grown = total_seconds(longer, GUESS) - total_seconds(work, GUESS)
    start = GUESS.start(work.processes, work.candidates).later if work.cases else 0.0
    each = start + sum(case_seconds(work, case, GUESS) for case in work.cases)
    assert grown >= more * each * (1 - 1e-9)


@given(works, st.sampled_from(["sdpa", "mine"]))
def test_a_candidate_more_takes_more(work: Work, spec: str) -> None:
    """A fast one may leave the others fewer samples, so it is beside equals here."""
    alike = replace(work, candidates=[spec] * len(work.candidates))
    more = replace(alike, candidates=[*alike.candidates, spec])
    assert total_seconds(more, GUESS) >= total_seconds(alike, GUESS)


@given(works, st.floats(0, 2000))
def test_what_fits_a_budget_costs_no_more_than_it(work: Work, budget: float) -> None:
    """And one launch more would not fit, unless all do."""
    count = launches_within(budget, work, GUESS)
    assert 0 <= count <= work.launches
    fitting = replace(work, launches=count)
    if count:
        assert total_seconds(fitting, GUESS) <= budget * (1 + 1e-6)
    if count < work.launches and work.cases:
        assert total_seconds(replace(work, launches=count + 1), GUESS) > budget * (1 - 1e-6)


@given(works, st.floats(0, 2000))
def test_cases_that_fit_cost_no_more_than_the_budget(work: Work, budget: float) -> None:
    """With all their launches; the cheapest that is left out would be too much."""
    chosen = cases_within(budget, work, GUESS)
    assert [case for case in work.cases if case in chosen] == chosen
    if chosen:
        assert total_seconds(replace(work, cases=chosen), GUESS) <= budget * (1 + 1e-6)
    for case in work.cases:
        if case not in chosen and work.launches:
            with_it = replace(work, cases=[*chosen, case])
            assert total_seconds(with_it, GUESS) > budget * (1 - 1e-6)


@given(works.filter(lambda work: len(work.cases) >= 2), st.integers(2, 4))
def test_machines_that_share_end_no_later_than_one(work: Work, count: int) -> None:
    """The one that ends last takes no more than all cases, and no less than its share."""
    count = min(count, len(work.cases))
    shares = [cases_of_shard(work.cases, str(Shard(n + 1, count))) for n in range(count)]
    longest = slowest_share(shares, work, GUESS)
    whole = total_seconds(work, GUESS)
    assert whole / count <= longest * (1 + 1e-9)
    assert longest <= whole * (1 + 1e-9)


def test_first_launch_takes_more() -> None:
    """It checks all rows; a resumed run already had it."""
    work = Work(CASES[:3], ["sdpa"], launches=2, samples=40)
    more = total_seconds(work, Exact()) - total_seconds(replace(work, first=False), Exact())
    assert round(more, 9) == 3 * first_seconds(work, CASES[0], Exact()) == 1.5


def test_nothing_known_is_said() -> None:
    """A guess has the widest range, and is called one."""
    work = Work(CASES, ["sdpa"], launches=2, samples=40)
    assert GUESS.level_of(work) is Basis.GUESS
    found = GUESS.seconds(work)
    assert found.low < 0.5 * found.likely
    assert found.high > 2 * found.likely
