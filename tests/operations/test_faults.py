"""Every operation: right candidates pass, and each way to look fast without the work is caught."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from flashbench import operations
from flashbench.case import DTYPES, Case
from flashbench.measure.checks import WrongError, check_candidate
from flashbench.measure.problem import Problem
from flashbench.operations import Operation

Call = Callable[..., Tensor]
EVERY = pytest.mark.parametrize("operation", operations.BUILT_IN.values(), ids=operations.BUILT_IN)


@st.composite
def cases(draw: st.DrawFn, operation: Operation) -> Case:
    """Small cases of an operation."""
    dtype, options = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(operation.options))
    if operation is operations.ATTENTION:
        return operation.case(draw(st.sampled_from(operation.tried()[:4])), dtype, "cpu", options)
    sizes = {name: draw(st.integers(8, 64)) for name in operation.sizes}
    return operation.case(sizes, dtype, "cpu", options)


def checked(operation: Operation, case: Case, make: Callable[[Call], Call], seed: int) -> None:
    """Check a candidate that `make` builds from torch's own; WrongError if it is wrong."""
    torch.set_num_threads(1)
    problem = Problem(case, seed, full_check=True)
    candidate = make(operation.load_baseline("").call)
    call = partial(candidate, *problem.inputs, **problem.keywords)
    check_candidate(problem, call, lambda: None)


@EVERY
@settings(max_examples=10, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_the_baseline_is_right(operation: Operation, data: st.DataObject, seed: int) -> None:
    """Torch's own result passes the operation's own check, for all sizes."""
    checked(operation, data.draw(cases(operation)), lambda call: call, seed)


def zeros(call: Call) -> Call:
    """Computes nothing."""
    return lambda *inputs, **words: torch.zeros_like(call(*inputs, **words))


def an_input(call: Call) -> Call:
    """Returns what it was given."""
    return lambda *inputs, **words: inputs[0]


def copied_input(call: Call) -> Call:
    """Returns a copy of what it was given."""
    return lambda *inputs, **words: inputs[0].clone()


def stale_memory(call: Call) -> Call:
    """Returns new memory as it is."""
    return lambda *inputs, **words: torch.empty_like(call(*inputs, **words))


def cached(call: Call) -> Call:
    """Computes once for each place in memory, and then copies that answer."""
    known: dict[int, Tensor] = {}

    def answer(*inputs: Tensor, **words: Any) -> Tensor:
        place = sum(x.data_ptr() for x in inputs)
        if place not in known:
            known[place] = call(*inputs, **words)
        return known[place].clone()

    return answer


def same_memory(call: Call) -> Call:
    """Writes every result to one place."""
    kept: list[Tensor] = []

    def answer(*inputs: Tensor, **words: Any) -> Tensor:
        out = call(*inputs, **words)
        kept[:] = kept or [torch.empty_like(out)]
        return kept[0].copy_(out)

    return answer


def lower_precision(call: Call) -> Call:
    """Computes in a narrower type and stores in the one asked for."""

    def answer(*inputs: Tensor, **words: Any) -> Tensor:
        if inputs[0].dtype == torch.float32:
            return call(*(x.bfloat16() for x in inputs), **words).float()
        out = call(*inputs, **words)
        largest = out.abs().max()
        return ((out / largest).to(torch.float8_e5m2).to(out.dtype) * largest).to(out.dtype)

    return answer


def half_the_rows(call: Call) -> Call:
    """Leaves out the last rows."""

    def answer(*inputs: Tensor, **words: Any) -> Tensor:
        out = call(*inputs, **words)
        out[..., out.shape[-2] // 2 :, :] = 0
        return out

    return answer


def changes_its_inputs(call: Call) -> Call:
    """Leaves its inputs other than it found them."""

    def answer(*inputs: Tensor, **words: Any) -> Tensor:
        out = call(*inputs, **words)
        inputs[0].zero_()
        return out

    return answer


FAULTS = (
    zeros,
    an_input,
    copied_input,
    stale_memory,
    cached,
    same_memory,
    lower_precision,
    half_the_rows,
    changes_its_inputs,
)


@pytest.mark.parametrize("fault", FAULTS)
@EVERY
@settings(max_examples=5, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_a_fault_is_caught(
    operation: Operation, fault: Callable[[Call], Call], data: st.DataObject, seed: int
) -> None:
    """Whatever is computed, no fault passes for a right result."""
    with pytest.raises(WrongError):
        checked(operation, data.draw(cases(operation)), fault, seed)
