"""`flashbench run` as its users see it: processes, exit codes, the file that remains."""

import contextlib
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import forks
import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench import runfile
from flashbench.cli.run import _exit_code
from flashbench.cost.money import money_text
from flashbench.runfile import Result, RunFile

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
FUNCTIONS = "tests.measuring.candidates_for_tests"
TINY = ["--shape", "1,1,8,32", "--dtype", "fp32", "--threads", "1", "--min-sample", "0.1ms"]
QUICK = [*TINY, "--samples", "2", "--device", "cpu", "--backends", "default", "--format", "none"]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "flashbench", "run", *map(str, arguments)]


def flashbench(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return forks.run(["run", *arguments], ROOT, environment)


def candidates(*functions: str) -> list[str]:
    return [part for f in functions for part in ("--candidate", f"{FUNCTIONS}:{f}")]


def results(run: RunFile, candidate: str) -> list[Result]:
    return [r for launch in run.launches for r in launch.results if r.candidate == candidate]


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()


@pytest.fixture(scope="module")
def everything_fails(tmp_path_factory: pytest.TempPathFactory) -> RunFile:
    """A run with one right candidate among some that fail in every way; three launches."""
    path = tmp_path_factory.mktemp("run") / "run.json"
    marker = path.parent / "marker"
    names = ["correct", "wrong", "raises", "aborts", "hangs", "takes_all_memory", "declines"]
    done = flashbench(
        *QUICK, *candidates(*names, "aborts_once", "aborts_when_timed"), "-o", path,
        "--causal", "full", "--launches", 3, "--timeout", "2s",
        FLASHBENCH_TEST_MARKER=str(marker),
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "wrong is wrong on 1 of 1 cases" in done.stderr
    return runfile.read(path)


def test_every_failure_is_recorded_with_its_reason(everything_fails: RunFile) -> None:
    """Each way to fail has its status and reason in the file."""
    expected = {
        "wrong": ("wrong", "exceeds the bound"),
        "raises": ("error", "RuntimeError: first line"),
        "aborts": ("crashed", "SIGABRT"),
        "aborts_when_timed": ("crashed", "SIGABRT"),
        "hangs": ("timeout", "no answer within 2 s"),
        "takes_all_memory": ("out_of_memory", "allocate"),
        "declines": ("unsupported", "only on Sundays"),
    }
    for name, (status, words) in expected.items():
        found = results(everything_fails, name)
        assert len(found) == 3
        for result in found:
            assert (result.status, result.timings) == (status, []), name
            assert words in result.reason


def test_failures_cost_the_others_nothing(everything_fails: RunFile) -> None:
    """Every working candidate is measured in every launch, side by side with SDPA."""
    for good, sdpa in zip(
        results(everything_fails, "correct"), results(everything_fails, "sdpa"), strict=True
    ):
        assert (good.status, sdpa.status) == ("ok", "ok")
        assert good.timings[0].block == sdpa.timings[0].block == [0, 1]
    assert all(launch.complete for launch in everything_fails.launches)
    assert all(launch.device_seconds > 0 for launch in everything_fails.launches)


def test_crash_is_tried_once_more(everything_fails: RunFile) -> None:
    """A crash by chance costs one launch; one that comes back is not paid for a third time."""
    assert [r.status for r in results(everything_fails, "aborts_once")] == ["crashed", "ok", "ok"]
    again = [r.reason.endswith("(not tried again)") for r in results(everything_fails, "hangs")]
    assert again == [False, False, True]


def test_environment_and_builds_are_in_the_file(everything_fails: RunFile) -> None:
    """The file says on what machine, with which code and settings it was measured."""
    run = everything_fails
    assert run.environment.torch
    assert run.environment.threads == 1
    assert run.settings.launches == 3
    assert run.settings.samples == 2
    assert run.settings.min_sample_seconds == 1e-4
    correct = next(c for c in run.candidates if c.name == "correct")
    assert len(correct.build.source_hash) == 64
    assert [c.name for c in run.candidates if c.baseline] == ["sdpa"]
    assert results(run, "correct")[0].peak_memory_bytes is not None


def test_killed_run_leaves_a_valid_file_and_is_resumed(tmp_path: Path) -> None:
    """SIGKILL as a worker starts, in the first launch and in a later one: the file is whole, no
    worker remains, the rest is added."""
    path = tmp_path / "run.json"
    fresh = [*QUICK, *candidates("correct"), "-o", path, "--launches", 4, "--samples", 100]
    arguments: list[object] = fresh
    moments = (
        lambda process: workers_of(process.pid),
        lambda process: path.exists(),
        lambda process: runfile.read(path).launches[0].complete and workers_of(process.pid),
    )
    for come in moments:
        process = subprocess.Popen(command(*arguments), cwd=ROOT, stderr=subprocess.DEVNULL)
        while not come(process):  # pytest's time limit ends a wait in vain
            assert process.poll() is None
            time.sleep(0.005)
        process.kill()
        process.wait()
        assert_no_worker_of(process.pid)
        if path.exists():
            before = runfile.read(path)
            arguments = ["--resume", path, "--format", "none"]
    kept = [launch for launch in before.launches if launch.complete] if path.exists() else []
    done = flashbench(*arguments)
    assert done.returncode == 0, done.stderr
    run = runfile.read(path)
    assert [launch.index for launch in run.launches] == [0, 1, 2, 3]
    assert all(launch.complete and len(launch.results) == 4 for launch in run.launches)
    assert run.launches[: len(kept)] == kept


def assert_no_worker_of(parent: int) -> None:
    """Workers are killed by the kernel with their parent, at once."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not workers_of(parent):
            return
        time.sleep(0.05)
    pytest.fail("a worker outlived its parent")


def workers_of(parent: int) -> list[Path]:
    return [one for one in Path("/proc").glob("[0-9]*") if is_worker_of(parent, one)]


def children(parent: int) -> list[int]:
    return [
        int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    ]


def runs(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def is_worker_of(parent: int, process: Path) -> bool:
    try:
        arguments = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return (
        any(b"worker_main" in one for one in arguments)  # or the server that forks them
        and arguments[-2] == str(parent).encode()
    )


def start_process(*arguments: object) -> "subprocess.Popen[str]":
    """As users do."""
    return subprocess.Popen(command(*arguments), cwd=ROOT, stderr=subprocess.PIPE, text=True)


def start_fork(*arguments: object) -> forks.Command:
    return forks.start(["run", *arguments], ROOT)


@pytest.mark.parametrize(
    ("number", "start"),
    [(signal.SIGINT, start_process), (signal.SIGTERM, start_fork), (signal.SIGHUP, start_fork)],
)
def test_interrupt_keeps_what_was_measured(tmp_path: Path, number: signal.Signals, start) -> None:  # type: ignore[no-untyped-def]
    """Ctrl-C, SIGTERM and SIGHUP end with code 4, say how to go on, and lose no finished case."""
    path = tmp_path / "my run.json"
    process = start(*QUICK, *candidates("correct"), "-o", path, "--launches", 1000)
    deadline = time.monotonic() + 60
    while not (path.exists() and runfile.read(path).launches[0].complete):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workers = children(process.pid)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 4, errors
    assert f"interrupted; resume with: flashbench run --resume {shlex.quote(str(path))}" in errors
    assert "Traceback" not in errors
    assert_no_worker_of(process.pid)
    assert not any(map(runs, workers))
    run = runfile.read(path)
    assert run.launches[0].complete
    assert len(run.launches) < 1000


def test_budget_is_a_hard_stop(tmp_path: Path) -> None:
    """The budget ends the run in time; the file records it, and a resumed run continues, until the
    deadline."""
    path = tmp_path / "run.json"
    many = [flag for n in range(1, 200) for flag in ("--shape", f"1,1,{n},32")]
    done = flashbench(
        *QUICK, *many, *candidates("slow"), "--samples", 8, "--budget", "3s", "-o", path,
        "--hourly-rate", "36",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "stopped by --budget" in done.stderr
    run = runfile.read(path)
    assert run.device_seconds < 3 + 5 + 2  # the grace, and the end of a process
    assert f"s, cost {money_text(run.device_seconds / 100, '')}" in done.stderr
    statuses = {r.status for launch in run.launches for r in launch.results}
    assert statuses == {"ok", "over_budget"}
    assert not run.launches[-1].complete
    before = sum(r.status == "ok" for r in results(run, "slow"))
    deadline = str(time.time() + 5)
    done = flashbench("--resume", path, "--format", "none", FLASHBENCH_DEADLINE=deadline)
    assert "stopped by FLASHBENCH_DEADLINE" in done.stderr
    assert sum(r.status == "ok" for r in results(runfile.read(path), "slow")) > before


def test_resume_refuses_another_build(tmp_path: Path) -> None:
    """A candidate whose code changed since is not mixed into the file; launches can be added."""
    source = tmp_path / "mine.py"
    source.write_text("from torch.nn.functional import scaled_dot_product_attention as f\n")
    path = tmp_path / "run.json"
    here = {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    done = flashbench(*QUICK, "--candidate", "mine:f", "-o", path, "--launches", 1, **here)
    assert done.returncode == 0, done.stderr
    done = flashbench("--resume", path, "--format", "csv", "--launches", 2, **here)
    assert done.returncode == 0, done.stderr
    assert "b1-h1-q8-d32-fp32-full-cpu" in done.stdout
    assert len(runfile.read(path).launches) == 2
    assert runfile.read(path).settings.earlier == [1]
    before = path.read_bytes()
    source.write_text(source.read_text() + "# changed\n")
    done = flashbench("--resume", path, "--launches", 3, **here)
    assert done.returncode == 2
    assert lines(done)[-1].endswith(
        "cannot be resumed, the build of candidate f changed (source hash differs); "
        "measure into a new file"
    )
    assert path.read_bytes() == before
    run = runfile.read(path)
    run.environment.torch = "1.0"
    run.launches.pop()
    runfile.save(run, path)
    done = flashbench("--resume", path, **here)
    assert done.returncode == 2
    assert "torch was 1.0 and is" in done.stderr
    run.candidates[-1].spec = "os.path:join; x"
    runfile.save(run, path)
    done = flashbench("--resume", path, **here)
    assert done.returncode == 2
    assert "invalid candidate" in lines(done)[-1]
    done = flashbench("--resume", path, "--samples", 3)
    assert done.returncode == 2
    assert "--samples cannot be changed with --resume" in done.stderr
    done = flashbench("--resume", path, "--launches", 1)
    assert done.returncode == 2


def test_baseline_only_needs_no_extension(tmp_path: Path) -> None:
    """SDPA alone is measured, with nothing of ours but the code of flashbench."""
    path = tmp_path / "run.json"
    done = flashbench(*QUICK, "--baseline-only", "--backends", "all", "--launches", 1, "-o", path)
    assert done.returncode == 0, done.stderr
    run = runfile.read(path)
    assert [c.name for c in run.candidates] == ["sdpa", "sdpa:flash", "sdpa:math"]
    assert {r.status for r in run.launches[0].results} == {"ok"}
    other = tmp_path / "other.json"
    printed = flashbench("--resume", path, "--format", "csv", "-o", other).stdout
    assert runfile.read(other) == run
    assert printed == forks.run(["show", path, "--format", "csv"], ROOT).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--candidate", f"{FUNCTIONS}:nosuch"], 4, "no function 'nosuch'"),
        (["--candidate", "tests.measuring.crashes_at_import:f"], 4, "crashed when it was imported"),
        (["--candidate", "mine"], 2, "name=module:function"),
        (["--candidate", "a=x:f", "--candidate", "a=y:f"], 2, "two candidates are named"),
        (["--candidate", "sdpa=x:f"], 2, "taken"),
        (["--backends", "fast"], 2, "backend 'fast' is unknown"),
        (["--shape", "1,2,3"], 2, "BATCH,HEADS"),
        (["--budget", "soon"], 2, "60s"),
        (["--budget", "0s"], 2, "60s"),
        (["--launches", "0"], 2, "--launches"),
        (["--resume", "nosuch.json"], 2, "nosuch.json"),
        (["-o", "/proc/run.json"], 2, "cannot be written"),
        (["--baseline-only", "--candidate", "a=x:f"], 2, "--baseline-only"),
    ],
)
def test_errors_are_one_line(arguments: list[str], code: int, words: str) -> None:
    """What cannot be run is said in one line, with the exit code of the contract."""
    done = flashbench(*arguments)
    assert done.returncode == code, done.stderr
    assert len(lines(done)) == 1
    assert words in done.stderr
    assert done.stdout == ""


def test_terminal_gets_a_bar_with_the_time_left(tmp_path: Path) -> None:
    """On a terminal stderr has a bar that counts cases; what remains on it are the notes."""
    ours, theirs = pty.openpty()
    arguments = [*QUICK, "--baseline-only", "--launches", 2, "-o", tmp_path / "run.json"]
    process = forks.start(["run", *arguments], ROOT, stderr=theirs)
    os.close(theirs)
    seen = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while data := os.read(ours, 1 << 16):
            seen += data
    os.close(ours)
    assert process.wait() == 0
    assert b"/4" in seen
    assert b"0:00:" in seen
    assert b"launch 2 of 2" in seen


def test_right_without_a_time_is_code_4(capsys: pytest.CaptureFixture[str]) -> None:
    """A candidate that is right but has no metric at all was not measured; its words are tame."""
    run = make_run(np.random.default_rng(0), cases=make_cases(1), launches=1, samples=2)
    (own,) = (c.name for c in run.candidates if not c.baseline)
    for result in results(run, own):
        result.timings, result.reason = [], "no wall: \x1b[2Jgone"
    assert _exit_code(run) == 4
    error = capsys.readouterr().err
    assert f"{own} could not be measured at all" in error
    assert "\x1b" not in error


def test_nothing_measured_is_code_4(tmp_path: Path) -> None:
    """A candidate that never works is neither a pass nor a regression."""
    path = tmp_path / "run.json"
    done = flashbench(*QUICK, *candidates("raises"), "--launches", 1, "-o", path)
    assert done.returncode == 4
    assert "raises could not be measured at all" in done.stderr
    assert {r.status for r in results(runfile.read(path), "sdpa")} == {"ok"}


def test_the_table_of_a_run_is_arranged(tmp_path: Path) -> None:
    """--columns, --sort, --only and --group are those of `show`, also with --resume; an unknown
    column is refused before anything is measured."""
    arguments = ("run", "--shape", "1,1,8,8", "--baseline-only", "-o", "run.json")
    for wrong in (("--columns", "spedup"), ("--sort", "spedup"), ("--only", "SAME")):
        done = forks.run((*arguments, *wrong), tmp_path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert wrong[0] in done.stderr
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "run.json").write_bytes((ROOT / "tests/golden/a.json").read_bytes())
    wish = ("--columns", "verdict", "--sort", "-speedup", "--only", "SLOWER", "--group", "dtype")
    shown = forks.run(("show", "run.json", *wish), tmp_path)
    resumed = forks.run(("run", "--resume", "run.json", *wish), tmp_path)
    assert resumed.stdout == shown.stdout
    assert shown.stdout.count("SLOWER") >= 1
