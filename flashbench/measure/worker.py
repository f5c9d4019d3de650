"""The worker process: one launch. It answers the parent's requests until the socket closes.

Started by flashbench/measure/process.py with the number of its end of the socket.
"""

import contextlib
import os
import signal
import sys
from pathlib import Path
from time import monotonic

import torch

from flashbench.candidates import Loaded, Site, baselines, load
from flashbench.errors import Exit, FlashbenchError
from flashbench.measure import torch_settings
from flashbench.measure.clock import Clock
from flashbench.measure.environment import device_state, environment
from flashbench.measure.inspect import inspect_case
from flashbench.measure.measurement import (
    DeviceLostError,
    Options,
    make_clock,
    measure_case,
)
from flashbench.measure.plan import MIN_SAMPLE_SECONDS
from flashbench.measure.protocol import (
    Done,
    Fatal,
    Inspect,
    Inspected,
    Inspection,
    Measure,
    Phase,
    Ready,
    Refused,
    Setup,
    WorkerEnd,
)
from flashbench.parent import signal_when_parent_dies
from flashbench.runfile import Candidate


def main(handle: int, parent: int) -> None:
    """Serve requests from the socket `handle` until `parent` closes it or dies."""
    _die_with(parent)
    connection = WorkerEnd(handle)
    setup = connection.receive()
    if not isinstance(setup, Setup):
        return
    try:
        worker = _Worker(setup, connection)
    except FlashbenchError as error:
        connection.send(Refused(reason=str(error), exit_code=error.exit_code))
        return
    while (request := connection.receive()) is not None:
        try:
            worker.answer(request)
        except DeviceLostError as error:
            connection.send(Fatal(str(error)))
            os._exit(1)  # destructors would only trip over the lost device


def _die_with(parent: int) -> None:
    """Be killed when the parent is, and be the first to go when memory runs out."""
    if sys.platform == "linux":
        signal_when_parent_dies(signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)
        with contextlib.suppress(OSError):  # no such file in some sandboxes: nothing to prefer
            Path("/proc/self/oom_score_adj").write_text("1000")


class _Worker:
    def __init__(self, setup: Setup, connection: WorkerEnd) -> None:
        self._connection = connection
        self._samples = setup.samples
        connection.send(Phase("", "start"))
        self._device = _choose_device(setup.device)
        if setup.threads is not None:
            torch.set_num_threads(setup.threads)
        seconds = setup.min_sample_seconds or MIN_SAMPLE_SECONDS[self._device]
        self._clock: Clock = make_clock(self._device, seconds, setup.metrics)
        self._loaded: dict[str, Loaded] = {}
        failures: dict[str, str] = {}
        described: list[Candidate] = []
        settings = torch_settings.current()
        for candidate in [*baselines(self._device, setup.backends), *setup.candidates]:
            connection.send(Phase(candidate.name, "import"))
            try:
                loaded, candidate.build = load(candidate, _site(setup, candidate))
                self._loaded[candidate.name] = loaded
            except (Exception, SystemExit) as error:
                failures[candidate.name] = str(error) or type(error).__name__
            torch_settings.restore(settings)  # an import must not decide how the others run
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

    def answer(self, request: Setup | Measure | Inspect) -> None:
        if isinstance(request, Measure):
            self._connection.send(self._measure(request))
        elif isinstance(request, Inspect):
            self._connection.send(Inspection(self._inspect(request)))

    def _measure(self, request: Measure) -> Done:
        left = request.seconds_left
        options = Options(
            samples=self._samples,
            seed=request.seed,
            full_check=request.full_check,
            deadline=float("inf") if left is None else monotonic() + left,
        )
        candidates = [self._loaded[name] for name in request.candidates]
        results = measure_case(request.case, candidates, self._clock, options, self._tell)
        return Done(results, device_state(self._device))

    def _inspect(self, request: Inspect) -> dict[str, Inspected]:
        candidates = [self._loaded[name] for name in request.candidates]
        return inspect_case(request.case, candidates, request.seed, self._tell)

    def _tell(self, candidate: str, doing: str) -> None:
        self._connection.send(Phase(candidate, doing))


def _site(setup: Setup, candidate: Candidate) -> Site | None:
    place = setup.sites.get(candidate.name)
    return Site(Path(place), Path(setup.copies)) if place else None


def _choose_device(wanted: str) -> str:
    available = torch.cuda.is_available()
    if wanted == "auto":
        return "cuda" if available else "cpu"
    if wanted == "cuda" and not available:
        why = "torch finds none" if torch.version.cuda else "this torch was built without CUDA"
        raise FlashbenchError(
            f"no CUDA device: {why}; use --device cpu, or see `nvidia-smi`", Exit.NOT_MEASURED
        )
    return wanted
