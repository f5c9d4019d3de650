"""A worker process that dies, hangs or lies is detected."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import forks
import pytest

from flashbench.errors import Exit, FlashbenchError
from flashbench.measuring.forks import Forks
from flashbench.measuring.process import Worker, WorkerDiedError
from flashbench.measuring.protocol import Done, Measure, Ready, Reply, Setup, WorkerEnd
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import parse_shape
from flashbench.runfile import Candidate

FUNCTIONS = "tests.measuring.candidates_for_tests"
WHERE = f"{FUNCTIONS}:says_where_it_is"
LINUX = pytest.mark.skipif(not Forks.possible, reason="workers are forked, and end, on Linux")
CASE = attention_case(parse_shape("1,1,8,32"), "fp32", False, "cpu")


def setup(*specs: str, device: str = "cpu") -> Setup:
    return Setup(
        device=device,
        candidates=[Candidate(name=spec.rpartition(":")[2], spec=spec) for spec in specs],
        backends="default",
        threads=1,
        samples=2,
        min_sample_seconds=1e-4,
    )


def where(worker: Worker) -> list[str]:
    """The worker's process number, and where it maps memory."""
    done = measure(worker, "says_where_it_is")
    assert isinstance(done, Done)
    return done.results[0].reason.split()[-2:]


@pytest.fixture(scope="module")
def server() -> Iterator[Forks | None]:
    """What workers of tests that are not about their start come from: torch is imported once."""
    with Forks() as forks:
        yield forks if Forks.possible else None


def measure(worker: Worker, *candidates: str) -> Reply:
    return worker.ask(Measure(case=CASE, candidates=list(candidates), seed=1, full_check=True))


def test_worker_answers_and_ends() -> None:
    """A worker says what machine it is on and what does not load, measures, and leaves nothing."""
    with Worker(timeout=60) as worker:
        ready = worker.ask(
            setup(f"{FUNCTIONS}:chatters", WHERE, f"{FUNCTIONS}:nosuch", "nosuch.module:f")
        )
        assert isinstance(ready, Ready)
        assert ready.device == "cpu"
        assert ready.environment.threads == 1
        assert "no function 'nosuch'" in ready.failures["nosuch"]
        assert "cannot be imported" in ready.failures["f"]
        process = Path("/proc", where(worker)[0])
        assert process.exists()
        done = measure(worker, "chatters", "sdpa")
        assert isinstance(done, Done)
        assert [(r.candidate, r.status) for r in done.results] == [
            ("chatters", "ok"),
            ("sdpa", "ok"),
        ]
    assert not process.exists()


def runs(process: str) -> bool:
    """Whether it has not ended; an orphan may stay a zombie for a while."""
    try:
        return ") Z " not in Path("/proc", process, "stat").read_text()
    except FileNotFoundError:
        return False


@LINUX
def test_forked_workers_are_processes_of_their_own(server: Forks) -> None:
    """Workers of one server answer side by side, at addresses of their own, and end by themselves;
    a server that dies is replaced."""
    wanted, places = setup(WHERE), []
    with Worker(60, server) as first, Worker(60, server) as second:
        for worker in (first, second):
            assert isinstance(worker.ask(wanted), Ready)
            places.append(where(worker))
        first.kill()
        assert isinstance(measure(second, "sdpa"), Done)
        assert server._server is not None
        server._server._process.kill()
        server._server._process.wait()
        with pytest.raises(WorkerDiedError, match="killed by SIGKILL"):
            measure(second, "sdpa")
    with Worker(60, server) as third:
        assert isinstance(third.ask(wanted), Ready)
    processes, addresses = zip(*places, strict=True)
    assert len(set(addresses)) == 2
    deadline = time.monotonic() + 20
    while any(runs(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(runs(process) for process in processes)


def test_machine_without_torch(tmp_path: Path) -> None:
    """The command says what to install."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    done = subprocess.run(
        [sys.executable, "-m", "flashbench", "run", "--baseline-only", "--device", "cpu"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == Exit.NOT_MEASURED
    last = done.stderr.splitlines()[-1]
    assert last.endswith("No module named 'torch'; install it: python -m pip install torch")


def test_settings_of_an_import_are_its_candidates_own(server: Forks | None) -> None:
    """What an import sets of torch holds for the calls of its candidate, and for no others."""
    own, other = "tests.measuring.sets_precision", "tests.measuring.candidates_for_tests"
    with Worker(60, server) as worker:
        worker.ask(setup(f"{own}:attention", f"{other}:finds_highest_precision"))
        done = measure(worker, "attention", "finds_highest_precision", "sdpa")
        assert isinstance(done, Done)
        assert {r.candidate: (r.status, r.reason) for r in done.results} == {
            "attention": ("ok", ""),
            "finds_highest_precision": ("ok", ""),
            "sdpa": ("ok", ""),
        }


# In a fork whose worker is one too; test_crash_at_import_names_the_candidate starts a whole one.
DIES = """
import json, sys
sys.path.insert(0, sys.argv[1])
from measuring.test_process import FUNCTIONS, Forks, Worker, WorkerDiedError, measure, setup
with Forks() as forks, Worker(1, forks if sys.argv[3] == "forked" else None) as worker:
    worker.ask(setup(f"{FUNCTIONS}:{sys.argv[2]}"))
    try:
        measure(worker, "sdpa", sys.argv[2])
    except WorkerDiedError as error:
        print(json.dumps([error.candidate, error.status, str(error)]))
"""


@pytest.mark.parametrize(
    ("function", "status", "words"),
    [
        ("aborts", "crashed", "killed by SIGABRT"),
        ("reads_null", "crashed", "killed by SIGSEGV"),
        ("leaves", "crashed", "exit status 3: last words"),
        ("hangs", "timeout", "no answer within 1 s (check)"),
    ],
)
@pytest.mark.parametrize("start", ["fresh", pytest.param("forked", marks=LINUX)])
def test_end_of_a_worker_is_told(function: str, status: str, words: str, start: str) -> None:
    """Signal, exit status, last line and time-out are reported, with the candidate to blame."""
    process = forks.start([forks.ROOT / "tests", function, start], forks.ROOT, script=DIES)
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    candidate, ended, said = json.loads(stdout)
    assert (candidate, ended) == (function, status)
    assert words in said


def test_crash_at_import_names_the_candidate() -> None:
    """A candidate that ends the process when it is imported is reported by name."""
    with Worker(timeout=60) as worker, pytest.raises(WorkerDiedError) as caught:
        worker.ask(setup(f"{FUNCTIONS}:correct", "tests.measuring.crashes_at_import:f"))
    assert caught.value.candidate == "f"


def test_missing_device_is_refused(server: Forks | None) -> None:
    """Without a GPU, `cuda` is an error that names the way out."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with Worker(60, server) as worker, pytest.raises(FlashbenchError, match="--device cpu") as none:
        worker.ask(setup(device="cuda"))
    assert none.value.exit_code is Exit.NOT_MEASURED


# A torch that never comes: it writes down who imports it.
IMPORTED = "import os, pathlib, time\npathlib.Path(os.environ['SEEN'], str(os.getpid())).touch()\n"
STARTS = """
import sys, time
from flashbench.measuring.forks import Forks
from flashbench.measuring.process import Worker
with Forks() as forks, Worker(60, forks if sys.argv[1] == "forked" else None):
    time.sleep(1000)
"""


@LINUX
@pytest.mark.parametrize("start", ["fresh", "forked"])
def test_worker_dies_with_its_parent_while_it_imports_torch(tmp_path: Path, start: str) -> None:
    """The signal for the parent's death is requested before anything slow."""
    seen = tmp_path / "seen"
    seen.mkdir()
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(IMPORTED + "time.sleep(1000)\n")
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])])
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS, start],
        env=os.environ | {"PYTHONPATH": path, "SEEN": str(seen)},
    )
    while not (found := list(seen.iterdir())):
        assert parent.poll() is None
        time.sleep(0.01)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    stat = Path("/proc", found[0].name, "stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
        time.sleep(0.01)  # pytest's time limit ends a wait in vain


def test_what_a_candidate_starts_has_no_socket() -> None:
    """The worker's answers are its own: a program that a candidate starts does not inherit them."""
    ours, theirs = socket.socketpair()
    theirs.set_inheritable(True)  # as for the worker itself
    end = WorkerEnd(theirs.detach())
    assert not os.get_inheritable(end._socket.fileno())
    ours.close()
