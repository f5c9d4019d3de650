"""`flashbench run --slurm` on a real Slurm of one node, started and ended by these tests."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster.slurm_node import lacking, slurm_node

from flashbench import runfile
from flashbench.runfile import RunFile

pytest.importorskip("submitit", reason="submitit is not installed: pip install flashbench[slurm]")
pytestmark = pytest.mark.skipif(
    bool(lacking()), reason=f"no Slurm here: {', '.join(lacking())} not found (Debian: slurm-wlm)"
)
ROOT = Path(__file__).parents[2]
TINY = [
    "--shape", "1,1,8,32", "--shape", "1,1,16,32", "--dtype", "fp32", "--threads", "1",
    "--min-sample", "0.1ms", "--samples", "2", "--device", "cpu", "--backends", "default",
    "--candidate", "tests.fleet.counted:attention", "--workers", "fresh", "--format", "none",
]  # fmt: skip
Environment = dict[str, str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    with slurm_node(tmp_path_factory.mktemp("s")) as environment:
        yield environment | {"PYTHONPATH": str(ROOT)}


def flashbench(
    cluster: Environment, *arguments: object, **more: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "flashbench", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=cluster | more,
        timeout=200,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def cells(run: RunFile) -> dict[tuple[int, str, str], str]:
    return {(x.index, r.case, r.candidate): r.status for x in run.launches for r in x.results}


def queue(cluster: Environment) -> str:
    command = ["squeue", "--noheader", "--format=%i %T"]
    return subprocess.run(command, env=cluster, capture_output=True, text=True).stdout


def wait_until(true: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture(scope="module")
def whole(cluster: Environment, tmp_path_factory: pytest.TempPathFactory) -> RunFile:
    """The run that was never spread."""
    path = tmp_path_factory.mktemp("whole") / "run.json"
    done = flashbench(cluster, "run", *TINY, "--launches", 2, "-o", path)
    assert done.returncode == 0, done.stderr
    return runfile.read(path)


def test_job_array_measures_what_one_run_would(
    cluster: Environment, whole: RunFile, tmp_path: Path
) -> None:
    """Two tasks give the cases, launches and seeds of one run; the script is shown before."""
    path = tmp_path / "run.json"
    done = flashbench(cluster, "run", *TINY, "--launches", 2, "--slurm", 2, "-o", path)
    assert done.returncode == 0, done.stderr
    run = runfile.read(path)
    assert cells(run) == cells(whole)
    assert run.cases == whole.cases
    assert [(x.index, x.seed, x.complete) for x in run.launches] == [
        (x.index, x.seed, x.complete) for x in whole.launches
    ]
    assert done.stderr.index("#SBATCH --array=0-1%2") < done.stderr.index("is sent")
    assert re.search(r"shard 2/2: RUNNING \(\w+\)", done.stderr)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_dry_run_shows_what_is_sent(cluster: Environment, whole: RunFile, tmp_path: Path) -> None:
    """The text of --dry-run is, byte for byte, what sbatch gets; --no-wait leaves a job whose
    parts `merge` collects with the command that was told."""
    path = tmp_path / "run.json"
    asked = ["run", *TINY, "--launches", 2, "--slurm", 2, "--slurm-time", 7, "-o", path]
    asked += ["--slurm-option", "comment=it's a test"]
    dry = flashbench(cluster, *asked, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "#SBATCH --time=7\n" in dry.stdout
    assert "task 1: flashbench run --shape=1,1,8,32 " in dry.stderr
    assert not list(tmp_path.iterdir())
    sent = flashbench(cluster, *asked, "--no-wait")
    assert sent.returncode == 0, sent.stderr
    job = sent.stdout.strip()
    directory = tmp_path / "run.json.parts"
    script = directory / "slurm" / f"{job}_submission.sh"
    assert script.read_text() == dry.stdout.removesuffix("\n")
    assert directory.stat().st_mode & 0o777 == (directory / "slurm").stat().st_mode & 0o777 == 0o700
    merge = re.search(r"`(flashbench merge [^`]*)`", sent.stderr)
    assert merge
    wait_until(lambda: not queue(cluster))
    command = merge[1].replace("flashbench", f"{sys.executable} -m flashbench", 1)
    subprocess.run(["sh", "-c", command], check=True, env=cluster, cwd=ROOT)
    assert cells(runfile.read(path)) == cells(whole)


def test_dead_task_is_told_and_measured_again(cluster: Environment, tmp_path: Path) -> None:
    """A task killed in its third launch: the rest is merged, exit code 4, and --resume sends a job
    for its shard alone."""
    path = tmp_path / "run.json"
    doomed = {"FLASHBENCH_TEST_COUNT": str(tmp_path / "count"), "FLASHBENCH_TEST_LIMIT": "2"}
    spread = ["--slurm", 2, "--format", "none"]
    done = flashbench(cluster, "run", *TINY, "--launches", 3, *spread, "-o", path, **doomed)
    assert done.returncode == 4, done.stderr
    assert "warning: shard 2/2: 1 of 3 launches are unfinished: Slurm says" in done.stderr
    assert f"unfinished; resume with: flashbench run --resume {path} --slurm 2" in done.stderr
    assert "launch 2 of 3" in done.stderr  # the last words of the task
    before = runfile.read(path)
    assert [len(launch.results) for launch in before.launches] == [8, 8, 4]
    done = flashbench(cluster, "run", "--resume", path, *spread)
    assert done.returncode == 0, done.stderr
    assert "--array" not in done.stderr
    assert "shard 1/2" not in done.stderr
    run = runfile.read(path)
    assert all(launch.complete and len(launch.results) == 8 for launch in run.launches)
    assert run.launches[:2] == before.launches[:2]
    assert not (tmp_path / "run.json.parts").exists()


def start(cluster: Environment, path: Path) -> subprocess.Popen[str]:
    """A run of two tasks that would never end; the first has measured a launch."""
    endless = ["run", *TINY, "--launches", "1000", "--slurm", "2", "-o", str(path)]
    command = [sys.executable, "-m", "flashbench", *endless]
    process = subprocess.Popen(command, cwd=ROOT, env=cluster, stderr=subprocess.PIPE, text=True)
    part = path.with_name("run.json.parts") / "part-1-of-2.json"
    wait_until(lambda: part.exists() and runfile.read(part).launches[0].complete)
    return process


def test_cancelled_job_keeps_what_it_measured(cluster: Environment, tmp_path: Path) -> None:
    """scancel: a running task saves its results, a pending one has none; both are reported."""
    path = tmp_path / "run.json"
    process = start(cluster, path)
    job = queue(cluster).split("_")[0].split()[0]
    subprocess.run(["scancel", job], env=cluster, check=True)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 4, errors
    assert re.search(r"shard 1/2: \d+ of 1000 launches are unfinished: Slurm says CANC", errors)
    assert "shard 2/2: nothing was measured: Slurm says CANCELLED" in errors
    run = runfile.read(path)
    assert len(run.cases) == 4
    assert len({result.case for result in run.launches[0].results}) == 2


def test_ctrl_c_leaves_the_job(cluster: Environment, tmp_path: Path) -> None:
    """Ctrl-C ends the waiting, not the job, and says how to cancel and how to collect."""
    path = tmp_path / "run.json"
    process = start(cluster, path)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 4, errors
    said = re.search(r"job (\d+) keeps running: cancel it with `scancel \1`, collect .*", errors)
    assert said, errors
    assert "RUNNING" in queue(cluster)
    assert f"-o {path}`" in said[0]
    subprocess.run(["scancel", said[1]], env=cluster, check=True)
    wait_until(lambda: not queue(cluster))


def test_refused_job_is_one_error(cluster: Environment, tmp_path: Path) -> None:
    """What sbatch says is passed on; nothing remains."""
    asked = ["--slurm", 2, "--slurm-partition", "nosuch", "-o", tmp_path / "run.json"]
    done = flashbench(cluster, "run", *TINY, *asked)
    assert done.returncode == 4
    assert "invalid partition" in done.stderr.splitlines()[-1].lower()
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_running(tmp_path: Path) -> None:
    """Ending the cluster ends its daemons and everything that it started."""
    with slurm_node(tmp_path):
        pass
    mine = str(tmp_path).encode()
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) != os.getpid():
            try:
                assert mine not in (process / "environ").read_bytes(), process.name
            except OSError:
                continue
