"""Measure one case in one launch without counters: times, correctness, the kernels of a call."""

from dataclasses import dataclass

from flashbench.case import Case
from flashbench.errors import NotMeasuredError
from flashbench.measuring.process import Worker, WorkerDiedError
from flashbench.measuring.protocol import (
    Done,
    Inspect,
    Inspected,
    Inspection,
    Measure,
    Ready,
    Reply,
    Request,
    Setup,
)
from flashbench.runfile import Candidate, DeviceState, Environment, Result


@dataclass(frozen=True, slots=True)
class Timed:
    """One launch of one candidate. inspected: None if its call failed. state: before it."""

    candidate: Candidate
    environment: Environment
    result: Result
    inspected: Inspected | None
    state: DeviceState


def time_case(
    setup: Setup, name: str, case: Case, seed: int, timeout: float, *, checked: bool = True
) -> Timed:
    """Measure the candidate `name` of a setup as `flashbench run` does, in one launch.

    timeout: seconds per step. checked: False for a candidate that is deliberately wrong. Raises
    NotMeasuredError if the worker dies or the candidate does not load.
    """
    with Worker(timeout) as worker:
        ready = _ask(worker, setup)
        assert isinstance(ready, Ready)
        if name in ready.failures:
            raise NotMeasuredError(f"{name}: {ready.failures[name]}")
        candidate = next(one for one in ready.candidates if one.name == name)
        request = Measure(
            case=case, candidates=[name], seed=seed, full_check=False, checked=checked
        )
        done = _ask(worker, request)
        assert isinstance(done, Done)
        (result,) = done.results
        inspected = None
        if result.status == "ok" and checked:
            answer = _ask(worker, Inspect(case=case, candidates=[name], seed=seed))
            assert isinstance(answer, Inspection)
            inspected = answer.found[name]
    return Timed(candidate, ready.environment, result, inspected, ready.state)


def _ask(worker: Worker, request: Request) -> Reply:
    try:
        return worker.ask(request)
    except WorkerDiedError as error:
        raise NotMeasuredError(f"{error.candidate or 'flashbench'}: {error}") from None
