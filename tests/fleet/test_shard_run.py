"""`flashbench run --shard i/n` and `flashbench merge` with real worker processes."""

import copy
import subprocess
from pathlib import Path

import forks
import pytest

from flashbench import runfile
from flashbench.runfile import RunFile

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RUN = [
    "run", "--shape", "1,1,8,32", "--shape", "1,1,16,32", "--dtype", "fp32", "--threads", "1",
    "--min-sample", "0.1ms", "--samples", "2", "--device", "cpu", "--backends", "default",
    "--candidate", "tests.measuring.candidates_for_tests:correct", "--launches", "2",
]  # fmt: skip


def flashbench(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return forks.run(arguments, ROOT, environment)


def cells(run: RunFile) -> dict[tuple[int, str, str], str]:
    """What a run knows, without the times: launch, case, candidate -> status."""
    return {
        (launch.index, result.case, result.candidate): result.status
        for launch in run.launches
        for result in launch.results
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFile:
    """What one process measured."""
    path = tmp_path_factory.mktemp("whole") / "run.json"
    done = flashbench(*RUN, "--format", "none", "-o", path)
    assert done.returncode == 0, done.stderr
    return runfile.read(path)


def test_shards_measure_what_one_run_would(whole: RunFile, tmp_path: Path) -> None:
    """Two shards, one of them resumed, merge into the cases, seeds and launches of one run."""
    parts = [tmp_path / f"{i}.json" for i in (1, 2)]
    for i, part in enumerate(parts, 1):
        done = flashbench(*RUN, "--shard", f"{i}/2", "-o", part)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
    half = runfile.read(parts[1])
    assert half.settings.shard == "2/2"
    assert len(half.cases) == 4
    assert all(len(launch.results) == 4 and launch.complete for launch in half.launches)
    half.launches.pop()
    runfile.save(half, parts[1])
    done = flashbench("run", "--resume", parts[1])
    assert done.returncode == 0, done.stderr
    assert len(cells(runfile.read(parts[1]))) == 8
    out = tmp_path / "out.json"
    done = flashbench("merge", *parts, "-o", out)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    merged, expected = runfile.read(out), whole
    assert cells(merged) == cells(expected)
    assert merged.cases == expected.cases
    assert [(x.index, x.seed, x.complete) for x in merged.launches] == [
        (x.index, x.seed, x.complete) for x in expected.launches
    ]
    done = flashbench("run", "--resume", out, "--format", "csv")
    assert "nothing is missing in the file" in done.stderr


def test_started_again_a_task_goes_on(tmp_path: Path) -> None:
    """The very command of a task, started twice (a requeued job), measures nothing twice."""
    part = tmp_path / "part.json"
    task = [*RUN, "--shard", "1/2", "-o", part, "--child"]
    assert flashbench(*task).returncode == 0
    first = runfile.read(part)
    again = flashbench(*task)
    assert (again.returncode, again.stdout) == (0, "")
    assert "nothing is missing in the file" in again.stderr
    assert runfile.read(part) == first


def test_resumed_pair_is_measured_together(whole: RunFile, tmp_path: Path) -> None:
    """Where the budget cut one candidate of a case, the others are measured again beside it, on
    whatever machine goes on: no pair has its halves from two processes."""
    path = tmp_path / "run.json"
    before = copy.deepcopy(whole)
    launch = before.launches[1]
    cut = next(r for r in launch.results if r.candidate == "correct")
    cut.status, cut.timings = "over_budget", []
    runfile.save(before, path)
    assert flashbench("run", "--resume", path, "--format", "none").returncode == 0
    after = runfile.read(path)
    for old in launch.results:
        new = next(
            r
            for r in after.launches[1].results
            if (r.case, r.candidate) == (old.case, old.candidate)
        )
        assert new.status == "ok"
        assert (new != old) == (old.case == cut.case)
    assert after.launches[0] == before.launches[0]


def test_shard_errors_are_one_line(tmp_path: Path) -> None:
    """A shard that cannot be is refused before anything is measured."""
    for shard, words in (("3/2", "write i/n"), ("1/5", "at most 4 shards")):
        done = flashbench(*RUN, "--shard", shard, "-o", tmp_path / "x.json")
        assert done.returncode == 2
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "x.json").exists()
