"""A worker process that dies, hangs or lies is told from one that answers."""

from pathlib import Path

import pytest

from flashbench.case import Case, parse_shape
from flashbench.errors import Exit, FlashbenchError
from flashbench.measure.process import Worker, WorkerDiedError
from flashbench.measure.protocol import Done, Measure, Ready, Reply, Setup
from flashbench.runfile import Candidate

FUNCTIONS = "tests.measure.candidates_for_tests"
CASE = Case(parse_shape("1,1,8,32"), "fp32", False, "cpu")


def setup(*specs: str, device: str = "cpu") -> Setup:
    return Setup(
        device=device,
        candidates=[Candidate(name=spec.rpartition(":")[2], spec=spec) for spec in specs],
        backends="default",
        threads=1,
        samples=2,
        min_sample_seconds=1e-4,
    )


def measure(worker: Worker, *candidates: str) -> Reply:
    return worker.ask(Measure(case=CASE, candidates=list(candidates), seed=1, full_check=True))


def test_worker_answers_and_ends() -> None:
    """A worker says what machine it is on and what does not load, measures, and leaves nothing."""
    with Worker(timeout=60) as worker:
        ready = worker.ask(setup(f"{FUNCTIONS}:chatters", f"{FUNCTIONS}:nosuch", "nosuch.module:f"))
        assert isinstance(ready, Ready)
        assert ready.device == "cpu"
        assert ready.environment.threads == 1
        assert "no function 'nosuch'" in ready.failures["nosuch"]
        assert "cannot be imported" in ready.failures["f"]
        done = measure(worker, "chatters", "sdpa")
        assert isinstance(done, Done)
        assert [(r.candidate, r.status) for r in done.results] == [
            ("chatters", "ok"),
            ("sdpa", "ok"),
        ]
        process = Path(f"/proc/{worker._process.pid}")
        assert process.exists()
    assert not process.exists()


@pytest.mark.parametrize(
    ("function", "status", "words"),
    [
        ("aborts", "crashed", "killed by SIGABRT"),
        ("reads_null", "crashed", "killed by SIGSEGV"),
        ("leaves", "crashed", "exit status 3: last words"),
        ("hangs", "timeout", "no answer within 1 s (check)"),
    ],
)
def test_end_of_a_worker_is_told(function: str, status: str, words: str) -> None:
    """Signal, exit status, last line and time-out are told, with the candidate to blame."""
    with Worker(timeout=1) as worker:
        worker.ask(setup(f"{FUNCTIONS}:{function}"))
        with pytest.raises(WorkerDiedError) as caught:
            measure(worker, "sdpa", function)
    assert caught.value.candidate == function
    assert caught.value.status == status
    assert words in str(caught.value)


def test_crash_at_import_names_the_candidate() -> None:
    """A candidate that ends the process when it is imported is told by name."""
    with Worker(timeout=60) as worker, pytest.raises(WorkerDiedError) as caught:
        worker.ask(setup(f"{FUNCTIONS}:correct", "tests.measure.crashes_at_import:f"))
    assert caught.value.candidate == "f"


def test_missing_device_is_refused() -> None:
    """Without a GPU, `cuda` is an error that names the way out."""
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with Worker(timeout=60) as worker, pytest.raises(FlashbenchError, match="--device cpu") as none:
        worker.ask(setup(device="cuda"))
    assert none.value.exit_code is Exit.NOT_MEASURED
