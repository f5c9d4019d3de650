"""What the GPU tests share."""

from collections.abc import Iterator

import pytest
import torch

# A Hopper GPU has kernels of its own for gradients and runs those of earlier GPUs, too.
_ON_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)


@pytest.fixture(params=["fp16", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Each dtype that this build holds for CUDA."""
    from flashbench.kernels.torch_attention import _C

    if request.param not in _C.cuda_dtypes():
        pytest.skip(f"flashbench._C was built without {request.param}")
    return {"fp16": torch.float16, "bf16": torch.bfloat16}[request.param]


@pytest.fixture(params=["own", "sm80"] if _ON_HOPPER else ["own"])
def kernels(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kernels that gradients take, and the forwards before them."""
    from flashbench.extension import load

    load().cuda_take_sm80_gradients(request.param == "sm80")
    yield request.param
    load().cuda_take_sm80_gradients(False)


@pytest.fixture(params=[False, True], ids=["fast", "deterministic"])
def mode(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Without and with torch.use_deterministic_algorithms."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(request.param)
    yield request.param
    torch.use_deterministic_algorithms(before)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20)
