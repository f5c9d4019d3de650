"""What the asv suites serve of a run file."""

import math
from pathlib import Path

import pytest

from flashbench import runfile
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.history import suite
from flashbench.runfile import Candidate, Launch, Result, RunFile, RunSettings, Timing

CASE, OTHER = suite.cases("cpu")[:2]


def result(candidate: str, seconds: list[float], block: list[int]) -> Result:
    timing = Timing(metric="wall", calls=1, seconds=seconds, block=block)
    return Result(case=CASE.id, candidate=candidate, status="ok", timings=[timing])


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory holds two launches of the CPU; SDPA lacks a block of the first."""
    monkeypatch.chdir(tmp_path)
    failed = Result(case=OTHER.id, candidate=suite.KERNEL, status="wrong", reason="max error 3")
    first = [result(suite.KERNEL, [1.0, 4.0, 8.0], [0, 0, 1]), result("sdpa", [4.0], [0]), failed]
    second = [result(suite.KERNEL, [6.0, 9.0], [0, 1]), result("sdpa", [3.0, 3.0], [1, 0])]
    settings = RunSettings(launches=2, samples=3, seed=0, min_sample_seconds=0, timeout_seconds=1)
    measured = RunFile(
        settings=settings,
        candidates=[
            Candidate(name=suite.SDPA, spec="sdpa", baseline=True),
            Candidate(name=suite.KERNEL, spec=suite.KERNEL),
        ],
        cases=[CASE, OTHER],
        launches=[
            Launch(index=0, seed=0, results=first),
            Launch(index=1, seed=1, results=second),
        ],
    )
    runfile.save(measured, tmp_path / "cpu.json")
    return tmp_path


def test_seconds_are_the_median_of_each_launch(directory: Path) -> None:
    """A launch counts once, with the median of its log times, as in every other table."""
    served = suite.seconds(CASE.id, suite.KERNEL)
    assert served == {"samples": [4.0, 7.34847], "number": 1}


def test_ratio_pairs_blocks_of_one_launch(directory: Path) -> None:
    """A launch's median over pairs of samples of one block; a block without pair is out."""
    assert suite.ratio(CASE.id, suite.KERNEL) == {"samples": [0.5, 2.44949], "number": 1}


def test_failed_case_tells_its_reason(directory: Path) -> None:
    """A case that failed has no samples but an error that says why."""
    with pytest.raises(NotMeasuredError, match="wrong: max error 3"):
        suite.seconds(OTHER.id, suite.KERNEL)
    with pytest.raises(NotMeasuredError, match="no launch reached it"):
        suite.seconds(OTHER.id, suite.SDPA)


def test_device_that_is_not_there_is_skipped(directory: Path) -> None:
    """Without a run file of the device, the case counts as skipped for asv."""
    case = suite.cases("cuda")[0].id
    for served in (suite.seconds(case, suite.SDPA), suite.ratio(case, suite.KERNEL)):
        assert isinstance(served, float)
        assert math.isnan(served)


def test_launches_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number of launches that is none is refused by name."""
    monkeypatch.setenv("FLASHBENCH_HISTORY_LAUNCHES", "12")
    assert suite.launches() == 12
    monkeypatch.setenv("FLASHBENCH_HISTORY_LAUNCHES", "many")
    with pytest.raises(InvalidInputError, match="FLASHBENCH_HISTORY_LAUNCHES is 'many'"):
        suite.launches()
