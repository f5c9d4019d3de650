"""The process under ncu or perf: it makes the measured call between two marks.

Inputs, stream, torch settings and the path to the candidate are those of a launch.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from flashbench import operations, own_python
from flashbench.case import Case
from flashbench.inputs import read_input
from flashbench.measuring.protocol import Setup
from flashbench.operations.case_document import decode_case, encode_case
from flashbench.profile.perf import Calls

_MAX_BYTES = 2**24
# Candidates are found as by the worker.
_BOOTSTRAP = (
    f"from flashbench.profile.target import main; {own_python.FROM_HERE}"
    "main(sys.argv[1], sys.argv[2:])"
)
_WARM_UP_CALLS = 3
_CPU_SECONDS = 0.3
_MOST_CPU_CALLS = 100_000


class Job(msgspec.Struct, kw_only=True):
    """What to call. cold: after overwriting the GPU's L2 cache."""

    setup: Setup
    candidate: str
    case: Case
    seed: int
    cold: bool


_JOB = msgspec.json.Decoder(Job, dec_hook=decode_case)


def command(job: Path) -> list[str]:
    """The command that runs the job in a file; for perf, two FIFOs are appended."""
    return own_python.command(_BOOTSTRAP, str(job))


def write(job: Job, path: Path) -> None:
    """Raises OSError."""
    path.write_bytes(msgspec.json.encode(job, enc_hook=encode_case))


def main(path: str, marks: Sequence[str] = ()) -> None:
    """Run the job in the file; an error is one line on stderr and exit status 1."""
    job = _JOB.decode(read_input(Path(path), _MAX_BYTES, "a job"))
    import torch

    from flashbench.measuring.problem import inputs_of
    from flashbench.measuring.worker import load_one
    from flashbench.revisions.in_worker import RevisionsInWorker

    try:
        revisions = RevisionsInWorker(job.setup)
        loaded = load_one(job.setup, job.candidate, job.case.device, revisions)
        with torch.no_grad(), loaded.scope():
            inputs = inputs_of(job.case, job.seed)
            call = operations.of(job.case).bind(loaded.call, inputs)
            for _ in range(_WARM_UP_CALLS):
                call()
            if job.case.device == "cuda":
                _on_gpu(call, cold=job.cold)
            else:
                _on_cpu(call, *marks)
    except Exception as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        sys.exit(f"{job.candidate}: {line}")


def _on_gpu(call: Callable[[], object], *, cold: bool) -> None:
    import torch

    if cold:
        cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        torch.empty(2 * cache, dtype=torch.uint8, device="cuda").zero_()
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    out = call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    del out


def _on_cpu(call: Callable[[], object], control: str, answer: str) -> None:
    """Make calls for a third of a second, counted by perf."""
    with Path(control).open("w") as to_perf, Path(answer).open() as from_perf:

        def tell(word: str) -> None:
            to_perf.write(f"{word}\n")
            to_perf.flush()
            from_perf.readline()

        tell("enable")
        calls, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < _CPU_SECONDS and calls < _MOST_CPU_CALLS:
            call()
            calls += 1
        tell("disable")
    print(msgspec.json.encode(Calls(calls=calls, seconds=spent)).decode(), flush=True)
