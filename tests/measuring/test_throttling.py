"""Blocks during which the GPU throttled are dropped, counted and reported; simulated on the CPU
clock."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from synthetic import make_cases, make_pair, make_run

from flashbench.candidates import load, parse_candidate
from flashbench.launches import launch_data
from flashbench.measuring import measurement
from flashbench.measuring.clock_cpu import CpuClock
from flashbench.measuring.measurement import MeasuringOptions, measure_case
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import parse_shape
from flashbench.outcome import Outcome
from flashbench.report import report_one, report_two
from flashbench.runfile import Candidate, Launch, Result, RunFile, RunSettings

CASE = attention_case(parse_shape("1,2,16,32"), "fp32", True, "cpu")
CANDIDATES = [
    Candidate(name="sdpa", spec="sdpa", baseline=True),
    parse_candidate("tests.measuring.candidates_for_tests:correct"),
    parse_candidate("again=tests.measuring.candidates_for_tests:correct"),
]
Throttle = Callable[[Callable[[int], bool]], list[Result]]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Throttle]:
    """Measure three candidates in 8 passes while the device throttles at some of the 16 times it
    is asked: before and after each pass."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def measure(throttles: Callable[[int], bool]) -> list[Result]:
        asked = iter(range(1000))
        monkeypatch.setattr(measurement, "throttled", lambda device: throttles(next(asked)))
        loaded = [load(candidate)[0] for candidate in CANDIDATES]
        return measure_case(CASE, loaded, CpuClock(1e-4), MeasuringOptions(samples=8, seed=1))

    yield measure
    torch.set_num_threads(threads)


def run_of(*launches: list[Result]) -> RunFile:
    return RunFile(
        settings=RunSettings(
            launches=len(launches), samples=8, seed=1, min_sample_seconds=1e-4, timeout_seconds=60
        ),
        candidates=CANDIDATES,
        cases=[CASE],
        launches=[
            Launch(index=index, seed=index, complete=True, results=results)
            for index, results in enumerate(launches)
        ],
    )


def caveats(run: RunFile) -> dict[str, str]:
    return {caveat.code: caveat.message for caveat in report_one(run).caveats}


def test_throttled_pass_is_dropped_for_all_and_counted_once(measured: Throttle) -> None:
    """Two of eight passes are dropped, of every candidate the same, and are two blocks; throttling
    that begins in a pass drops it as throttling before it does."""
    throttling = {2 * 1 + 1, 2 * 4}  # at the end of pass 1, at the start of pass 4
    results = measured(lambda number: number in throttling)
    assert [result.status for result in results] == ["ok"] * 3
    assert [result.reason for result in results] == [""] * 3
    for result in results:
        assert result.dropped_blocks == 2
        assert result.timings[0].block == [0, 2, 3, 5, 6, 7]
        assert len(result.timings[0].seconds) == 6
    run = run_of(results, measured(lambda number: number == 0))
    assert launch_data(run).dropped_blocks() == 3
    assert caveats(run)["throttled"].startswith("3 throttled blocks")


def test_case_without_any_unthrottled_block_says_so(measured: Throttle) -> None:
    """Where every block was dropped the case is NOT MEASURED, as throttled, not as stopped."""
    run = run_of(measured(lambda number: True))
    for result in run.launches[0].results:
        assert result.status == "ok"
        assert result.reason == "no wall: all blocks were throttled"
        assert result.dropped_blocks == 8
    report = report_one(run)
    assert [verdict.outcome for verdict in report.verdicts] == [Outcome.NOT_MEASURED] * 2
    for verdict in report.verdicts:
        assert verdict.reason == "throttled: no wall: all blocks were throttled"
    assert caveats(run)["throttled"].startswith("8 throttled blocks")


def test_launch_that_was_throttled_is_told_beside_the_others(measured: Throttle) -> None:
    """A throttled launch among good ones is left out of the comparison, with its reason."""
    good = measured(lambda number: False)
    report = report_one(run_of(good, measured(lambda number: True), good))
    for pairing in (comparison.pairing for comparison in report.comparisons):
        assert pairing.launches == (2,)
        assert pairing.partial is not None
        assert (pairing.partial.status, pairing.partial.launches) == ("throttled", 1)


def test_a_metric_that_was_not_timed_is_not_called_throttled() -> None:
    """Dropped blocks of one metric are no reason for another that was never measured."""
    run = make_run(np.random.default_rng(0), cases=make_cases(1), launches=3)
    for launch in run.launches:
        for result in launch.results:
            result.dropped_blocks = 1
    assert launch_data(run, "graph").failure(0, 0) is None
    reason = report_one(run, metric="graph").verdicts[0].reason
    assert reason == "ours has no graph times; it has wall"


@pytest.mark.parametrize("make", [make_run, make_pair])
def test_report_counts_blocks_of_all_launches_and_cases(make: Callable[..., RunFile]) -> None:
    """The caveat adds up launches and cases, not candidates: one file, and one of two builds."""
    run = make(np.random.default_rng(0), cases=make_cases(2), launches=3)
    assert "throttled" not in caveats(run)
    for result in run.launches[1].results:
        result.dropped_blocks = 2
    for result in run.launches[2].results[: len(run.candidates)]:
        result.dropped_blocks = 1
    assert caveats(run)["throttled"] == "5 throttled blocks were dropped"


def test_report_of_two_files_says_which_was_throttled() -> None:
    """With two files the caveat names the side."""
    a, b = (
        make_run(np.random.default_rng(i), cases=make_cases(1), launches=3, candidate="ours")
        for i in range(2)
    )
    for result in b.launches[0].results:
        result.dropped_blocks = 2
    messages = [caveat.message for caveat in report_two(a, b).caveats if caveat.code == "throttled"]
    assert messages == ["B: 2 throttled blocks were dropped"]
