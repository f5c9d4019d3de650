"""The value of the fixture `attention`: one of our problems and a candidate to call on it."""

import os
from functools import lru_cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor

from flashbench.candidates import SDPA, Loaded, load, parse_candidate
from flashbench.case import Case, DtypeName
from flashbench.effort import MIN_SAMPLE_SECONDS
from flashbench.errors import NotMeasuredError
from flashbench.measure.clock import Clock
from flashbench.measure.measurement import make_clock
from flashbench.measure.plan import derive_seed
from flashbench.measure.problem import Problem
from flashbench.operations.attention.operation import Causal, grid
from flashbench.operations.attention.sdpa import BACKENDS
from flashbench.operations.attention.shapes import Shape
from flashbench.runfile import Candidate


class Attention:
    """A case with its inputs and the expected result; calling it runs the candidate.

    q: (batch, heads, q_len, head_dim); k, v: (batch, kv_heads, k_len, head_dim), N(0, 1).
    keywords: SDPA's other arguments (`is_causal` or `attn_mask`, `enable_gqa`). A call returns the
    candidate's output, (batch, heads, q_len, head_dim).
    """

    def __init__(self, case: Case, problem: Problem, loaded: Loaded | None) -> None:
        self.case = case
        self.problem = problem
        self.loaded = loaded
        self.q, self.k, self.v = problem.inputs
        self.keywords: dict[str, Any] = problem.keywords

    def __call__(self) -> Tensor:
        if self.loaded is None:
            pytest.fail("no candidate to call: the marker `attention` names no `candidates`", False)
        with torch.no_grad(), self.loaded.scope():
            return self.loaded.call(self.q, self.k, self.v, **self.keywords)


def prepare(
    shape: Shape, dtype: DtypeName, causal: Causal, device: str, candidate: str | None
) -> Attention:
    """Make the problem of a case; skips the test if the machine has no such device.

    Inputs differ between processes, as between launches of `flashbench run`.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    (case,) = grid([shape], [dtype], [causal], device)
    loaded = None if candidate is None else _load(candidate)
    with torch.no_grad():
        problem = Problem(case, derive_seed("pytest", os.getpid()), full_check=True)
    return Attention(case, problem, loaded)


@lru_cache(maxsize=2)
def clock_of(device: str) -> Clock:
    """The process's clock for a device, made once: on a GPU it is calibrated and holds memory."""
    return make_clock(device, MIN_SAMPLE_SECONDS[device])


def call_of(attention: Attention, function: object, *args: Any, **kwargs: Any) -> partial[Tensor]:
    """The call that `benchmark(function, ...)` times, without the fixture's overhead."""
    if function is attention:
        assert attention.loaded is not None
        return partial(attention.loaded.call, *attention.problem.inputs, **attention.keywords)
    assert callable(function)
    return partial(function, *args, **kwargs)


def _load(text: str) -> Loaded:
    try:
        name, _, backend = text.partition(":")
        if name == SDPA and (not backend or backend in BACKENDS):
            return load(Candidate(name=text, spec=text, baseline=True))[0]
        return load(parse_candidate(text))[0]
    except NotMeasuredError as error:
        pytest.fail(str(error), False)
