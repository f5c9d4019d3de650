"""The time that a run has left: the planner's, corrected by how the run meets it."""

import os
import pty
from pathlib import Path

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.cost.learn import learn
from flashbench.measuring import progress
from flashbench.measuring.plan import Plan
from flashbench.measuring.time_left import TimeLeft
from flashbench.runfile import Pair, RunFile

START, CASE = 2.0, 1.5


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFile:
    """Four launches of two cases, from which the machine is known."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    found = make_run(np.random.default_rng(0), cases=make_cases(2), launches=4, between=0.004)
    found.environment.cpu, found.environment.threads = "A CPU", 2
    for launch in found.launches:
        launch.start_seconds = START
        for result in launch.results:
            result.sampling_seconds = result.device_seconds = 0.2
        launch.case_seconds = {case.id: CASE for case in found.cases}
        launch.device_seconds = START + 2 * CASE
    learn(found, before=[])
    return found


def plan_of(run: RunFile, launches: int, pair: Pair | None = None) -> Plan:
    return Plan([], run.candidates[:1], launches=launches, samples=20, pair=pair)


def test_it_counts_down_as_planned(run: RunFile) -> None:
    """Where the run takes what earlier ones took, each case takes its seconds off."""
    left = TimeLeft(run, plan_of(run, 4))
    left.launch(1, run.cases, run.cases)
    whole = left.within(None)
    assert whole == pytest.approx(3 * (START + 2 * CASE), rel=0.2)
    left.step(run.cases[0], START + CASE)
    assert left.within(None) == pytest.approx(whole - START - CASE, rel=0.2)
    left.launch(3, run.cases, run.cases)
    assert left.within(None) == pytest.approx(START + 2 * CASE, rel=0.2)
    assert left.within(1.0) == 1.0  # the budget ends it


def test_a_slower_machine_is_seen(run: RunFile) -> None:
    """A run that takes twice as long as planned has more time left than the plan had."""
    left = TimeLeft(run, plan_of(run, 20))
    left.launch(1, run.cases, run.cases)
    planned = left.within(None)
    for index in range(1, 9):
        seconds = 0.0
        left.launch(index, run.cases, run.cases)
        for case in run.cases:
            seconds += START + 2 * CASE
            left.step(case, seconds)
    left.launch(9, run.cases, run.cases)
    assert left.within(None) > 1.5 * planned * 11 / 19


def test_a_comparison_is_expected_to_stop_early(run: RunFile) -> None:
    """From the spread of earlier launches; the rest is this launch."""
    pair = Pair(old="sdpa", new="ours", tolerance=0.05, confidence=0.95)
    left = TimeLeft(run, plan_of(run, 1000, pair))
    left.launch(1, run.cases, run.cases)
    assert left.within(None) < 20 * (START + 2 * CASE)
    left.launch(500, run.cases[:1], run.cases[:1])
    assert left.within(None) == pytest.approx(START + CASE, rel=0.2)


def test_the_bar_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner's seconds, counted down; rich's own guess is nowhere."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    main, side = pty.openpty()
    with os.fdopen(side, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        bar = progress.BarProgress()
        assert bar.left == ""
        bar.begin(10, 125.0)
        assert bar.left == "0:02:05"
        now[0] += 5
        assert bar.left == "0:02:00"
        bar.step(30.0)
        assert bar.left == "0:00:30"
        with bar:
            pass
    assert b"0:00:30" in os.read(main, 10_000)
    os.close(main)
