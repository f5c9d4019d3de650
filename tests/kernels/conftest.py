"""What the kernel tests share: each usable instruction set, each dtype, and the rule of right."""

from collections.abc import Iterator

import pytest
import torch
from masks import IDS, MASKS

from flashbench.extension import load
from flashbench.operations.attention.operation import Causal

_C = load()


@pytest.fixture(params=_C.usable_isas())
def isa(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each instruction set that this CPU can run, in use for one test."""
    before = _C.selected_isa()
    _C.select_isa(request.param)
    yield request.param
    _C.select_isa(before)


@pytest.fixture(params=[torch.float32, torch.float16, torch.bfloat16], ids=["fp32", "fp16", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Each dtype of the CPU kernels."""
    chosen: torch.dtype = request.param
    return chosen


@pytest.fixture(params=[False, True], ids=["full", "causal"])
def causal(request: pytest.FixtureRequest) -> bool:
    """Without the mask and with it."""
    return bool(request.param)


@pytest.fixture(params=MASKS, ids=IDS)
def mask(request: pytest.FixtureRequest) -> Causal:
    """The same, and with the mask aligned at the bottom right."""
    chosen: Causal = request.param
    return chosen


@pytest.fixture
def threads() -> Iterator[None]:
    """Lets a test change torch's number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
