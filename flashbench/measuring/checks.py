"""Check that the candidate's answer is correct, and really computed by the timed call.

Each known way to look fast without doing the work is detected by its effect: docs/measuring.md.
"""

import math
from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor

from flashbench.measuring.clock import Call, Output
from flashbench.measuring.problem import Problem
from flashbench.runfile import Correctness

# Cycles that keep the GPU busy while work is queued behind them.
_SPIN_CYCLES = 20_000_000


class WrongError(Exception):
    """The candidate's output is wrong, or not honestly computed; the message explains."""

    def __init__(self, reason: str, correctness: Correctness | None = None) -> None:
        super().__init__(reason)
        self.correctness = correctness


def check_candidate(
    problem: Problem, call: Call, synchronize: Callable[[], None]
) -> tuple[Correctness, float]:
    """Run the candidate's first calls; returns its error and the seconds of the first call.

    Raises WrongError, and passes on anything the candidate raises.
    """
    problem.poison()
    synchronize()
    start = perf_counter()
    first = call()
    synchronize()
    first_call_seconds = perf_counter() - start
    correctness = check_output(problem, first, problem.sign)
    check_inputs(problem)
    _check_after_change(problem, call, first, synchronize)
    check_inputs(problem)
    if problem.renews:
        with problem.renewed() as sign:
            out = call()
            synchronize()
            check_output(problem, out, sign, "after all inputs changed in place: ")
    return correctness, first_call_seconds


def check_output(problem: Problem, out: Output, sign: int, when: str = "") -> Correctness:
    """The error of an output, or WrongError."""
    _check_kind(problem, out, when)
    check = problem.check(out, sign)
    correctness = Correctness(
        max_error=check.max_error if math.isfinite(check.max_error) else None,
        bound=check.bound,
        rows_checked=problem.rows_checked,
    )
    if not check.correct:
        raise WrongError(when + check.reason, correctness)
    return correctness


def check_inputs(problem: Problem) -> None:
    """WrongError if a call changed the inputs; they are restored for the other candidates."""
    if not problem.unchanged():
        problem.restore()
        raise WrongError("the call changed its inputs")


def _check_kind(problem: Problem, out: object, when: str = "") -> None:
    """WrongError unless `out` holds already computed values in its own memory.

    Applied to every output: one that is lazy only when timed would be computed by the check.
    """
    parts = problem.parts(out)
    if len(parts) != len(problem.names or parts):
        names = ", ".join(problem.names)
        raise WrongError(f"{when}returned {type(out).__name__}, not a tuple of {names}")
    for name, part, dtype in zip(problem.names or [""], parts, problem.dtypes, strict=True):
        _check_tensor(problem, part, dtype, f"{when}{name}{': ' * bool(name)}")


def _check_tensor(problem: Problem, out: object, dtype: torch.dtype, when: str) -> None:
    if type(out) is not Tensor:
        raise WrongError(f"{when}returned {type(out).__name__}, not a plain torch.Tensor")
    if out.layout != torch.strided or out.is_conj() or out.is_neg():
        raise WrongError(f"{when}returned a lazy or sparse tensor, not computed values")
    device = problem.inputs[0].device
    if out.dtype != dtype or out.device != device:
        raise WrongError(
            f"{when}returned {out.dtype} on {out.device}, expected {dtype} on {device}"
        )
    if any(_storage(out) == _storage(x) for x in problem.inputs):
        raise WrongError(f"{when}the output shares memory with an input")


def _storage(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _share_memory(problem: Problem, a: Output, b: Output) -> bool:
    """Whether a result of one output lies where one of the other lies."""
    return not {*map(_storage, problem.parts(a))}.isdisjoint(map(_storage, problem.parts(b)))


def _check_after_change(
    problem: Problem, call: Call, first: Output, synchronize: Callable[[], None]
) -> None:
    """Call again after the inputs changed in place, while the first output is still held.

    On a GPU both are queued behind a spinning kernel, and the output is copied in stream order:
    work on another stream that does not wait for the current one then reads old values, and work
    that the current stream does not wait for is unfinished when the output is copied.
    """
    on_gpu = problem.case.device == "cuda"
    problem.poison()
    synchronize()
    if on_gpu:
        torch.cuda._sleep(_SPIN_CYCLES)
    problem.flip()
    second = call()
    _check_kind(problem, second, "after the inputs changed in place: ")
    seen = _copied(second) if on_gpu else second
    synchronize()
    if _share_memory(problem, second, first):
        raise WrongError("returns the same memory again while its earlier output is still held")
    if problem.check(seen, problem.sign).correct:
        return
    if on_gpu:
        again = call()
        synchronize()
        if problem.check(again, problem.sign).correct:
            raise WrongError(
                "correct only after a synchronization: "
                "its work is not ordered on the current stream"
            )
    if all(map(torch.equal, problem.parts(second), problem.parts(first))):
        raise WrongError(
            "returned its earlier output again after the inputs changed in place: cached"
        )
    check_output(problem, seen, problem.sign, "after the inputs changed in place: ")


def _copied(out: Output) -> Output:
    return tuple(x.clone() for x in out) if isinstance(out, tuple) else out.clone()
