"""What errors of a first call say: not supported, or broken."""

import pytest

from flashbench.measuring.refusal import is_guard


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("attend takes only fp32 for now"),
        RuntimeError("attend takes float32, not Half"),
        RuntimeError("expected scalar type Float but found BFloat16"),
        RuntimeError("Head dim must be a multiple of 8"),
        RuntimeError("FlashAttention only supports Ampere GPUs or newer."),
        ValueError("unsupported data type: torch.bfloat16"),
        AssertionError("head_dim in (64, 128)"),
        TypeError("attention() got an unexpected keyword argument 'enable_gqa'"),
    ],
)
def test_guards_refuse(error: Exception) -> None:
    """TORCH_CHECK, assertions and signatures name what they do not take."""
    assert is_guard(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered; only sync errors"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"),
        RuntimeError("CUDA out of memory. Only 3 MiB are free"),
        RuntimeError("cuBLAS requires a workspace"),
        RuntimeError("Expected all tensors to be on the same device"),
        KeyError("only"),
        AttributeError("module has no attribute 'supported'"),
        RuntimeError("something went wrong"),
    ],
)
def test_broken_code_is_not_unsupported(error: Exception) -> None:
    """Failures of devices and libraries, and bugs, stay errors."""
    assert not is_guard(error)
