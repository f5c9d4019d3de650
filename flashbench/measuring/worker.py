"""The worker process: one launch. It answers the parent's requests until the socket closes.

Started by flashbench/measuring/process.py with the number of its end of the socket. What loads
built revisions lies in a layer above, and is passed in (flashbench/worker_main.py).
"""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Protocol

import torch

from flashbench import operations
from flashbench.candidates import Loaded, baselines, load
from flashbench.errors import Exit, FlashbenchError
from flashbench.measuring import torch_settings, vector_math
from flashbench.measuring.clock import Clock
from flashbench.measuring.environment import device_state, environment
from flashbench.measuring.inspect import inspect_case
from flashbench.measuring.measurement import (
    DeviceLostError,
    MeasuringOptions,
    make_clock,
    measure_case,
)
from flashbench.measuring.protocol import (
    Audit,
    Audited,
    Done,
    Fatal,
    Go,
    Inspect,
    Inspected,
    Inspection,
    Measure,
    Phase,
    Ready,
    Refused,
    Request,
    Setup,
    Turn,
    WorkerEnd,
)
from flashbench.operations.of_project import imported
from flashbench.runfile import Candidate
from flashbench.sample_counts import MIN_SAMPLE_SECONDS


class Revisions(Protocol):
    """Built revisions in this process. trace: the first thing found that they leave in it where
    others would find it, in words."""

    trace: str

    def load(self, candidate: Candidate) -> Loaded:
        """Load a candidate that is a built revision."""
        ...

    def look(self, when: str) -> None:
        """Look for new traces. when: what happened since the last look."""
        ...


def main(handle: int, revisions_of: Callable[[Setup], Revisions]) -> None:
    """Serve requests from the socket `handle` until the parent closes it. It dies with the parent:
    process.py asks for that before torch is imported."""
    _go_first()
    connection = WorkerEnd(handle)
    setup = connection.receive()
    if not isinstance(setup, Setup):
        return
    try:
        worker = _Worker(setup, connection, revisions_of)
    except FlashbenchError as error:
        connection.send(Refused(reason=str(error), exit_code=error.exit_code))
        return
    while (request := connection.receive()) is not None:
        try:
            worker.answer(request)
        except DeviceLostError as error:
            connection.send(Fatal(str(error)))
            os._exit(1)  # destructors would only trip over the lost device


def _go_first() -> None:
    """Be the first process to be killed when memory runs out."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # some sandboxes lack the file
            Path("/proc/self/oom_score_adj").write_text("1000")


class _Worker:
    def __init__(
        self,
        setup: Setup,
        connection: WorkerEnd,
        revisions_of: Callable[[Setup], Revisions],
    ) -> None:
        self._connection = connection
        self._samples = setup.samples
        connection.send(Phase("", "start"))
        self._device = _choose_device(setup.device)
        offered = _offered(setup, self._device)
        seconds = setup.min_sample_seconds or MIN_SAMPLE_SECONDS[self._device]
        self._clock: Clock = make_clock(self._device, seconds, setup.metrics)
        self._loaded: dict[str, Loaded] = {}
        self._called = False  # since the last search for traces
        failures: dict[str, str] = {}
        described: list[Candidate] = []
        settings = torch_settings.current()
        self._revisions = revisions_of(setup)
        for candidate in offered:
            connection.send(Phase(candidate.name, "import"))
            try:
                self._loaded[candidate.name] = _load(setup, candidate, settings, self._revisions)
            except (Exception, SystemExit) as error:
                failures[candidate.name] = str(error) or type(error).__name__
            if not candidate.baseline:
                self._revisions.look(f"when {candidate.name} was imported")
            described.append(candidate)
        connection.send(Phase("", "environment"))
        connection.send(
            Ready(
                device=self._device,
                environment=environment(self._device),
                candidates=described,
                failures=failures,
                min_sample_seconds=seconds,
                state=device_state(self._device),
            )
        )

    def answer(self, request: Request) -> None:
        if isinstance(request, Measure):
            self._connection.send(self._measure(request))
        elif isinstance(request, Audit):
            if self._called:
                self._revisions.look("by a call")
            self._called = False
            self._connection.send(Audited(self._revisions.trace))
        elif isinstance(request, Inspect):
            self._connection.send(Inspection(self._inspect(request)))

    def _measure(self, request: Measure) -> Done:
        left = request.seconds_left
        options = MeasuringOptions(
            samples=self._samples,
            seed=request.seed,
            full_check=request.full_check,
            deadline=float("inf") if left is None else monotonic() + left,
            checked=request.checked,
        )
        candidates = [self._loaded[name] for name in request.candidates]
        turn = self._take_turn if request.in_turns else lambda: False
        self._called = True
        results = measure_case(request.case, candidates, self._clock, options, self._tell, turn)
        return Done(results, device_state(self._device))

    def _inspect(self, request: Inspect) -> dict[str, Inspected]:
        candidates = [self._loaded[name] for name in request.candidates]
        return inspect_case(request.case, candidates, request.seed, self._tell)

    def _take_turn(self) -> bool:
        self._connection.send(Turn())
        if not isinstance(self._connection.receive(), Go):  # the parent is gone
            os._exit(1)
        return True

    def _tell(self, candidate: str, doing: str) -> None:
        self._connection.send(Phase(candidate, doing))


def load_one(setup: Setup, name: str, device: str, revisions: Revisions) -> Loaded:
    """Load one candidate of a launch, alone in this process, to be called as there."""
    candidate = next(one for one in _offered(setup, device) if one.name == name)
    return _load(setup, candidate, torch_settings.current(), revisions)


def _offered(setup: Setup, device: str) -> list[Candidate]:
    """The candidates of a launch, baselines first. Gives this process its threads and path."""
    if setup.threads is not None:
        torch.set_num_threads(setup.threads)
    vector_math.choose_kernels()
    if ":" in setup.operation:
        operations.know(imported(setup.operation, setup.operation_root))
    if setup.import_root:
        sys.path.insert(0, setup.import_root)
    # What a first call would import is no trace of a revision.
    operations.named(setup.operation).import_ahead()
    return [*baselines(device, setup.backends, setup.operation), *setup.candidates]


def _load(
    setup: Setup, candidate: Candidate, settings: torch_settings.Values, revisions: Revisions
) -> Loaded:
    """Load a candidate. Torch settings that its import changes, even one that fails, apply to its
    own calls only."""
    try:
        of_revision = revisions.load if candidate.name in setup.import_roots else None
        loaded, candidate.build = load(candidate, of_revision, setup.operation)
    finally:
        chosen = torch_settings.set_aside(settings)
    if chosen:
        loaded.scope = partial(_with_settings, chosen, loaded.scope)
    return loaded


@contextlib.contextmanager
def _with_settings(
    chosen: torch_settings.Values, scope: Callable[[], AbstractContextManager[None]]
) -> Iterator[None]:
    with torch_settings.applied(chosen), scope():
        yield


def _choose_device(wanted: str) -> str:
    if wanted == "cpu":
        return wanted  # where there is a GPU, torch takes long to find it
    available = torch.cuda.is_available()
    if wanted == "auto":
        return "cuda" if available else "cpu"
    if wanted == "cuda" and not available:
        why = "torch finds none" if torch.version.cuda else "this torch was built without CUDA"
        raise FlashbenchError(
            f"no CUDA device: {why}; use --device cpu, or see `nvidia-smi`", Exit.NOT_MEASURED
        )
    return wanted
