"""The order of measuring is a function of the seed, and fair."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from flashbench.measuring.plan import (
    candidate_order,
    case_order,
    derive_seed,
    launch_seed,
    passes,
)
from flashbench.operations.attention.operation import grid
from flashbench.operations.attention.shapes import GRID
from flashbench.sample_counts import split_samples

CASES = grid(GRID, ["fp32", "bf16"], [False, True], "cpu")
seeds = st.integers(min_value=0, max_value=2**53)


@given(seeds, st.integers(min_value=0, max_value=100))
def test_case_order_is_a_permutation_known_from_the_seed(seed: int, launch: int) -> None:
    """Every case comes once, and a resumed run finds the same order again."""
    order = case_order(CASES, launch_seed(seed, launch))
    assert sorted(order) == sorted(CASES)
    assert order == case_order(CASES, launch_seed(seed, launch))


def test_launches_have_orders_of_their_own() -> None:
    """No case is always first."""
    firsts = {case_order(CASES, launch_seed(0, launch))[0] for launch in range(20)}
    assert len(firsts) > 10


def test_seeds_do_not_change_between_processes_or_versions() -> None:
    """A file written today is resumed with the same inputs and orders tomorrow."""
    assert derive_seed(0, "launch", 3) == 1600366257684701904


@given(
    st.lists(st.text("ab:.", min_size=1), unique=True, max_size=6),
    seeds,
    st.integers(min_value=0, max_value=100).map(lambda half: 2 * half),
    st.data(),
)
def test_odd_launches_load_candidates_in_reverse(
    names: list[str], seed: int, even: int, data: st.DataObject
) -> None:
    """Each candidate comes once; the launch after an even one has its order reversed, and the order
    does not depend on how the candidates were listed."""
    order = candidate_order(names, seed, even)
    assert sorted(order) == sorted(names)
    assert candidate_order(names, seed, even + 1) == order[::-1]
    assert candidate_order(data.draw(st.permutations(names)), seed, even) == order


def test_neither_of_two_builds_is_loaded_first_more_often() -> None:
    """Over 1000 seeds of 2 pairs of launches each is first in the even launches about half of the
    time: within 4 standard errors; the pairs of one run have orders of their own."""
    firsts = [
        [candidate_order(["A", "B"], seed, even)[0] for even in (0, 2)] for seed in range(1000)
    ]
    a_first = sum(pair.count("A") for pair in firsts)
    assert abs(a_first - 1000) <= 4 * (2000 / 4) ** 0.5
    alike = sum(one == other for one, other in firsts)
    assert abs(alike - 500) <= 4 * (1000 / 4) ** 0.5


def test_candidate_order_does_not_change_between_processes_or_versions() -> None:
    """A resumed run continues with the orders it would have had."""
    orders = ["".join(candidate_order("ABCD", 7, launch)) for launch in range(4)]
    assert orders == ["BADC", "CDAB", "BDAC", "CADB"]


@given(st.integers(min_value=1, max_value=6), seeds)
def test_passes_are_forward_then_backward(count: int, seed: int) -> None:
    """Each pair of passes is A/B/B/A, so linear drift favours no candidate."""
    orders = passes(count, seed)
    assert len(orders) == 8
    for forward, backward in zip(orders[::2], orders[1::2], strict=True):
        assert sorted(forward) == list(range(count))
        assert backward == forward[::-1]


def test_every_candidate_starts_equally_often() -> None:
    """With two candidates each is first in half of the passes."""
    for seed in range(10):
        firsts = Counter(order[0] for order in passes(2, seed))
        assert firsts == {0: 4, 1: 4}


@given(st.integers(min_value=1, max_value=1000))
def test_samples_are_split_over_pairs_of_passes(samples: int) -> None:
    """All samples are taken, evenly, in an even number of passes where there are two samples."""
    shares = split_samples(samples)
    assert sum(shares) == samples
    assert max(shares) - min(shares) <= 1
    assert min(shares) >= 1
    assert len(shares) <= 8
    assert samples == 1 or len(shares) % 2 == 0
