"""What builds and their checks cost."""

from types import SimpleNamespace
from typing import Any

import pytest

from flashbench.cost.money import Money
from flashbench.errors import NotMeasuredError
from flashbench.measuring.device_seconds import after_builds
from flashbench.measuring.plan import Plan
from flashbench.revisions.built import seconds_of


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([], 0),
        ([None, None], 0),
        ([(5, 7), None, (1, 2)], 3),
        ([(1, 6), (2, 3), (4, 8), (8, 9)], 8),
        ([(1, 4), (1, 4)], 3),
    ],
)
def test_seconds_are_by_the_clock(spans: list[Any], seconds: float) -> None:
    """What was found counts nothing, and what ran side by side counts once."""
    builds: list[Any] = [SimpleNamespace(when=span) for span in spans]
    assert seconds_of(builds) == seconds


def test_money_pays_for_builds() -> None:
    """They are deducted from a budget in money, none from one in device time; none is left of one
    that they took."""
    plan = Plan(shapes=[], candidates=[], budget_seconds=10.0, build_seconds=6.5)
    assert after_builds(plan, Money(1, "usd")).budget_seconds == 3.5
    assert after_builds(plan, 10.0).budget_seconds == 10.0
    spent = Plan(shapes=[], candidates=[], budget_seconds=6.0, build_seconds=6.5)
    with pytest.raises(NotMeasuredError, match=r"builds and their checks, which took 6\.5 s"):
        after_builds(spent, Money(1, "usd"))
