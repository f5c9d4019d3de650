"""What the GPU tests share."""

import pytest
import torch


@pytest.fixture(params=["fp16", "bf16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Each dtype that this build holds for CUDA."""
    from flashbench.kernels.torch_attention import _C

    if request.param not in _C.cuda_dtypes():
        pytest.skip(f"flashbench._C was built without {request.param}")
    return {"fp16": torch.float16, "bf16": torch.bfloat16}[request.param]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20)
