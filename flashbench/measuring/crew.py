"""Paired processes: one worker per revision; together they answer like one `Worker`.

Each has SDPA beside its revision. They take turns, pass by pass, forward and then backward (A B | B
A), and only one runs at any moment: the others wait for their turn.
"""

from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import msgspec

from flashbench.baseline_names import baseline_beside
from flashbench.errors import NotMeasuredError
from flashbench.measuring.forks import Forks
from flashbench.measuring.plan import derive_seed, passes
from flashbench.measuring.process import Worker, WorkerDiedError
from flashbench.measuring.protocol import (
    Done,
    Go,
    Inspect,
    Inspected,
    Inspection,
    Measure,
    Ready,
    Reply,
    Request,
    Setup,
    Turn,
)
from flashbench.runfile import Candidate, DeviceState, Result

_WORKER_BYTES = 300 << 20  # of a process that has imported torch, without inputs


class Crew:
    """The workers of one launch, one per candidate."""

    def __init__(self, timeout: float, names: Sequence[str], forks: Forks | None) -> None:
        """timeout, forks: as for `Worker`. names: in the order in which they start.

        NotMeasuredError if the machine lacks the memory for that many processes with torch.
        """
        _require_memory(len(names))
        self._workers = {name: Worker(timeout, forks) for name in names}

    def kill(self) -> None:
        """End all of them, and whatever they started, now."""
        for worker in self._workers.values():
            worker.kill()

    def ask(self, request: Request, seconds_left: float | None = None) -> Reply:
        """Ask each worker for its part; answers and errors as from `Worker.ask`, by the run's
        names."""
        end = None if seconds_left is None else monotonic() + seconds_left
        if isinstance(request, Setup):
            return self._set_up(request, end)
        if isinstance(request, Measure):
            return self._measure(request, end)
        if isinstance(request, Inspect):
            return self._inspect(request, end)
        raise TypeError(f"{type(request).__name__} is for one worker")

    def _set_up(self, request: Setup, end: float | None) -> Ready:
        found = {}
        for candidate in request.candidates:
            name = candidate.name
            alone = msgspec.structs.replace(
                request, candidates=[candidate], import_roots={name: request.import_roots[name]}
            )
            ready = self._tell(name, alone, end)
            assert isinstance(ready, Ready)
            found[name] = ready
        first = next(iter(found.values()))
        return msgspec.structs.replace(
            first,
            candidates=[
                _renamed(candidate, name)
                for name in sorted(found)
                for candidate in found[name].candidates
            ],
            failures={
                _shown(failed, name): why
                for name, ready in found.items()
                for failed, why in ready.failures.items()
            },
        )

    def _measure(self, request: Measure, end: float | None) -> Done:
        shares = self._shares(request.candidates)
        todo: dict[str, Measure | Go] = {
            name: msgspec.structs.replace(request, candidates=share, in_turns=True)
            for name, share in shares.items()
        }
        results: list[Result] = []
        state = DeviceState()
        names = list(todo)
        orders = passes(len(names), derive_seed(request.seed, request.case.id, "processes"))
        step = 0
        while todo:
            for name in (names[place] for place in orders[step % len(orders)]):
                if name not in todo:
                    continue
                asked = todo.pop(name)
                if isinstance(asked, Measure) and end is not None:
                    asked.seconds_left = end - monotonic()
                answer = self._tell(name, asked, end)
                if isinstance(answer, Turn):
                    todo[name] = Go()
                    continue
                assert isinstance(answer, Done)
                state = answer.state
                for result in answer.results:
                    result.candidate = _shown(result.candidate, name)
                    results.append(result)
            step += 1
        return Done(results, state)

    def _inspect(self, request: Inspect, end: float | None) -> Inspection:
        found: dict[str, Inspected] = {}
        for name, share in self._shares(request.candidates).items():
            asked = msgspec.structs.replace(request, candidates=share)
            answer = self._tell(name, asked, end)
            assert isinstance(answer, Inspection)
            found |= {_shown(who, name): what for who, what in answer.found.items()}
        return Inspection(found)

    def _shares(self, wanted: Sequence[str]) -> dict[str, list[str]]:
        """Each worker's share of these names, under its own names."""
        shares: dict[str, list[str]] = {}
        for shown in wanted:
            baseline, _, owner = shown.rpartition("/")
            shares.setdefault(owner, []).append(baseline or owner)
        return {name: shares[name] for name in self._workers if name in shares}

    def _tell(self, name: str, request: Request, end: float | None) -> Reply:
        worker = self._workers[name]
        left = None if end is None else end - monotonic()
        try:
            return worker.ask(request, left)
        except WorkerDiedError as died:
            # While it waited, only threads of its revision ran in it.
            idle = worker.phase.doing == "idle"
            who = name if idle else died.candidate and _shown(died.candidate, name)
            raise WorkerDiedError(who, died.status, str(died)) from None


def _require_memory(processes: int) -> None:
    free = available_memory()
    if free is not None and free < processes * _WORKER_BYTES:
        raise NotMeasuredError(
            f"{processes} processes at once, one a revision, need about "
            f"{processes * _WORKER_BYTES / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free; "
            "measure fewer revisions at a time, or all in one process: --processes shared"
        )


def available_memory() -> int | None:
    """Bytes available to programs without swapping, as Linux estimates; None if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    words = next((line.split() for line in lines if line.startswith("MemAvailable:")), ["", ""])
    return int(words[1]) * 1024 if words[1].isdecimal() else None


def _shown(candidate: str, name: str) -> str:
    """The run's name for a candidate of `name`'s worker."""
    return candidate if candidate == name else baseline_beside(candidate, name)


def _renamed(candidate: Candidate, name: str) -> Candidate:
    if not candidate.baseline:
        return candidate
    shown = baseline_beside(candidate.name, name)
    return msgspec.structs.replace(candidate, name=shown, beside=name)
