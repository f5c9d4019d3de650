"""Who is tried again after a failure, and who is not."""

import pytest

from flashbench.measuring.retries import Retries
from flashbench.runfile import Result, ResultStatus


def retries_of(*results: tuple[str, ResultStatus]) -> Retries:
    known = Retries()
    for case, status in results:
        known.add(Result(case=case, candidate="mine", status=status, reason="because"))
    return known


@pytest.mark.parametrize("status", ["unsupported", "wrong"])
def test_what_cannot_change_is_not_tried_again(status: ResultStatus) -> None:
    """A wrong or unsupported case keeps its status and reason in all later launches."""
    again = retries_of(("a", status)).given_up("a", "mine")
    assert again is not None
    assert again.status == status
    assert again.reason == "because (not tried again)"
    known = retries_of(("a", status))
    known.add(again)
    repeated = known.given_up("a", "mine")
    assert repeated is not None
    assert repeated.reason == "because (not tried again)"


@pytest.mark.parametrize("status", ["error", "crashed", "timeout", "out_of_memory"])
def test_what_may_be_chance_is_tried_once_more(status: ResultStatus) -> None:
    """One failure is followed by a second try, two are enough; other cases are not affected."""
    assert retries_of(("a", status)).given_up("a", "mine") is None
    again = retries_of(("a", status), ("a", status)).given_up("a", "mine")
    assert again is not None
    assert again.status == status
    assert retries_of(("a", status), ("a", status)).given_up("b", "mine") is None


def test_candidate_that_only_hangs_is_given_up() -> None:
    """After four hangs or crashes and nothing else, no further case is tried."""
    hung: list[tuple[str, ResultStatus]] = [(case, "timeout") for case in "abcd"]
    assert retries_of(*hung[:3]).given_up("e", "mine") is None
    again = retries_of(*hung).given_up("e", "mine")
    assert again is not None
    assert again.status == "timeout"
    assert retries_of(*hung, ("e", "ok")).given_up("f", "mine") is None
