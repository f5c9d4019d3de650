"""Results and candidates are counted by what became of them."""

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.fates import Fate, counted, fate, fate_of
from flashbench.runfile import RunFile

OURS = "ours"


@pytest.fixture
def run() -> RunFile:
    """Two launches of two cases, all of them right."""
    return make_run(np.random.default_rng(0), cases=make_cases(2), launches=2, samples=2)


def fail(run: RunFile, status: str, launches: int = 2, cases: int = 2) -> None:
    names = [case.id for case in run.cases][:cases]
    for launch in run.launches[:launches]:
        for result in launch.results:
            if result.candidate == OURS and result.case in names:
                result.status, result.timings, result.reason = status, [], "because"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("wrong", Fate.WRONG),
        ("crashed", Fate.FAILED),
        ("timeout", Fate.FAILED),
        ("ok", Fate.FAILED),  # without a time
        ("unsupported", Fate.UNSUPPORTED),
        ("over_budget", Fate.UNREACHED),
    ],
)
def test_each_status_is_counted_as_what_it_is(run: RunFile, status: str, expected: Fate) -> None:
    """What is wrong, failed, unsupported or not reached is not lumped together."""
    fail(run, status)
    fates = [fate(result) for launch in run.launches for result in launch.results]
    assert fates.count(expected) == 4
    assert f"4 {expected}" in counted(fates)
    found = fate_of(run, OURS)
    assert found.fate is expected
    assert found.reason.startswith(f"{expected} on 2 of 2 cases; {run.cases[0].id}: ")
    assert found.reason.endswith("because")


def test_wrong_once_is_wrong(run: RunFile) -> None:
    """One wrong result of many right ones makes a candidate wrong."""
    fail(run, "wrong", launches=1, cases=1)
    assert fate_of(run, OURS).fate is Fate.WRONG


def test_a_launch_that_failed_is_made_up_for_by_another(run: RunFile) -> None:
    """A case with a time lacks nothing; a case without one is reported beside the others."""
    fail(run, "crashed", launches=1)
    assert fate_of(run, OURS).fate is Fate.MEASURED
    assert not fate_of(run, OURS).reason
    fail(run, "crashed", cases=1)
    found = fate_of(run, OURS)
    assert found.fate is Fate.MEASURED
    assert found.reason == f"failed on 1 of 2 cases; {run.cases[0].id}: crashed: because"


def test_nothing_is_counted_as_nothing() -> None:
    """No result at all is said to be no measurement."""
    assert counted([]) == "0 measured"
