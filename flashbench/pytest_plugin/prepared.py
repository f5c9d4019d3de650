"""The values of the fixtures: a case with its inputs, and a candidate to call on it."""

import os
from functools import cached_property, lru_cache, partial
from typing import Any

import pytest
import torch

from flashbench import operations
from flashbench.baseline_names import backend_of, is_baseline_name
from flashbench.candidates import Loaded, load, parse_candidate
from flashbench.case import Case, DtypeName
from flashbench.errors import NotMeasuredError
from flashbench.measuring import vector_math
from flashbench.measuring.clock import Call, Clock, Output
from flashbench.measuring.measurement import make_clock
from flashbench.measuring.plan import derive_seed
from flashbench.measuring.problem import Problem
from flashbench.operations import Operation, Options, Sizes
from flashbench.runfile import Candidate
from flashbench.sample_counts import MIN_SAMPLE_SECONDS


class Prepared:
    """A case with its inputs and the expected result; calling it runs the candidate.

    inputs: the tensors of a call. keywords: its other arguments. A call returns the candidate's
    output.
    """

    def __init__(self, case: Case, problem: Problem, loaded: Loaded | None) -> None:
        self.case = case
        self.problem = problem
        self.loaded = loaded
        self.inputs = problem.inputs
        self.keywords: dict[str, Any] = problem.keywords

    def __call__(self) -> Output:
        if self.loaded is None:
            pytest.fail("no candidate to call: the marker names no `candidates`", False)
        with torch.no_grad(), self.loaded.scope():
            return self.call()

    @cached_property
    def call(self) -> Call:
        """The candidate's call, without the scope."""
        assert self.loaded is not None
        return self.problem.bind(self.loaded.call)


class Attention(Prepared):
    """The fixture `attention`.

    q: (batch, heads, q_len, head_dim); k, v: (batch, kv_heads, k_len, head_dim), N(0, 1).
    keywords: SDPA's other arguments (`is_causal` or `attn_mask`, `enable_gqa`).
    """

    def __init__(self, case: Case, problem: Problem, loaded: Loaded | None) -> None:
        super().__init__(case, problem, loaded)
        self.q, self.k, self.v = problem.inputs


def set_up(
    name: str, sizes: Sizes, dtype: DtypeName, options: Options, device: str, candidate: str | None
) -> Prepared:
    """Make the problem of a case; skips the test if the machine has no such device.

    Inputs differ between processes, as between launches of `flashbench run`.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    vector_math.choose_kernels()
    operation = operations.named(name)
    case = operation.case(sizes, dtype, device, options)
    loaded = None if candidate is None else _load(candidate, operation)
    with torch.no_grad():
        problem = Problem(case, derive_seed("pytest", os.getpid()), full_check=True)
    made = Attention if operation is operations.ATTENTION else Prepared
    return made(case, problem, loaded)


@lru_cache(maxsize=2)
def clock_of(device: str) -> Clock:
    """The process's clock for a device, made once: on a GPU it is calibrated and holds memory."""
    return make_clock(device, MIN_SAMPLE_SECONDS[device])


def call_of(prepared: Prepared, function: object, *args: Any, **kwargs: Any) -> Call:
    """The call that `benchmark(function, ...)` times, without the fixture's overhead."""
    if function is prepared:
        return prepared.call
    assert callable(function)
    return partial(function, *args, **kwargs)


def _load(text: str, operation: Operation) -> Loaded:
    backends = {name for names in operation.backends.values() for name in names}
    try:
        if is_baseline_name(text) and backend_of(text) in ("", *backends):
            baseline = Candidate(name=text, spec=text, baseline=True)
            return load(baseline, operation=operation.name)[0]
        return load(parse_candidate(text))[0]
    except NotMeasuredError as error:
        pytest.fail(str(error), False)
