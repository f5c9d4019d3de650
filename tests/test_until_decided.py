"""What a comparison says early about the launches that it needs."""

import numpy as np
import pytest
from synthetic import make_cases, make_pair

from flashbench.report import report_builds
from flashbench.runfile import RunFile
from flashbench.until_decided import out_of_reach, tells_spread


def pair(between: float, speedup: float = 1.0) -> RunFile:
    run = make_pair(
        np.random.default_rng(2),
        cases=make_cases(2),
        launches=6,
        speedup=speedup,
        between=between,
        within=0.0,
    )
    for launch in run.launches:
        launch.case_seconds = dict.fromkeys((case.id for case in run.cases), 0.5)
    return run


def said(run: RunFile, launches: int, budget: float | None, tolerance: float = 0.01) -> str | None:
    report = report_builds(run, metric=None, tolerance=tolerance, alpha=0.05)
    return out_of_reach(run, report, launches, budget)


def test_what_will_not_be_decided_is_said_early() -> None:
    """With the launches that it takes, those that there are, and the tolerance that these reach."""
    run = pair(0.01)
    assert said(run, 200, None) is None
    line = said(run, 20, None)
    assert line is not None
    assert line.startswith("by the spread of these 6 launches, an unchanged build needs about ")
    assert "to be SAME at 1 %, and --launches allows about 20, which reach 3 %: --tolerance" in line
    within = said(run, 200, run.device_seconds + 4.0)  # of 1 s each
    assert within is not None
    assert "--budget allows about 10, which reach 5 %" in within


def test_a_budget_for_few_launches_is_judged_after_two() -> None:
    """It would end before six."""
    run = pair(0.01)
    assert tells_spread(run, None)
    assert tells_spread(run, 100.0)
    run.launches = run.launches[:2]
    assert not tells_spread(run, None)
    assert not tells_spread(run, run.device_seconds + 4.0)  # of 1 s each
    assert tells_spread(run, run.device_seconds + 3.0)
    line = said(run, 200, run.device_seconds + 3.0)
    assert line is not None
    assert line.startswith("by the spread of these 2 launches, ")
    assert "--budget allows about 5, which reach " in line


def test_the_tolerance_that_is_said_would_do() -> None:
    """A comparison with it says nothing more."""
    run = pair(0.02)
    line = said(run, 30, None)
    assert line is not None
    tolerance = float(line.partition("--tolerance ")[2].partition("%")[0]) / 100
    assert said(run, 30, None, tolerance) is None


@pytest.mark.parametrize(("between", "speedup"), [(0.001, 1.0), (0.01, 0.5)])
def test_nothing_is_said_of_what_is_decided_or_changed(between: float, speedup: float) -> None:
    """A quiet machine, and a clear change."""
    assert said(pair(between, speedup), 20, None) is None


def test_noise_beyond_any_tolerance() -> None:
    """It says so, instead of naming one."""
    line = said(pair(3.0), 20, None)
    assert line is not None
    assert "needs 1000 or more of them" in line
    assert line.endswith("which reach no tolerance up to 20 %")
