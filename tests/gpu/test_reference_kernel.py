"""The reference version of the kernels (csrc/cuda/reference) is right, and the others agree."""

import math

import pytest
import torch
from masks import IDS, MASKS, for_extension, for_ours, for_reference
from torch import Tensor

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from flashbench.kernels import torch_attention
from flashbench.kernels.scoring import DTYPE_CODES
from flashbench.operations.attention import truth as reference
from flashbench.operations.attention.operation import Causal

if not torch_attention._C.cuda_dtypes():
    pytest.skip("flashbench._C was built without CUDA kernels", allow_module_level=True)

BY_MASK = pytest.mark.parametrize("causal", MASKS, ids=IDS)
SHAPES = [(1, 3, 3, 1, 1, 64), (2, 4, 2, 197, 300, 40), (1, 2, 2, 513, 129, 256)]


def by_reference_kernel(q: Tensor, k: Tensor, v: Tensor, causal: Causal, scale: float) -> Tensor:
    """Launches it on the current stream."""
    out = torch.full(q.shape, math.nan, dtype=q.dtype, device="cuda")
    torch_attention._C.cuda_reference_attention(
        *(x.data_ptr() for x in (q, k, v, out)),
        0,
        (*q.shape[:2], k.shape[1], q.shape[2], *k.shape[2:]),
        *(x.stride() for x in (q, k, v, out)),
        scale,
        *for_extension(causal, q.shape[2], k.shape[2]),
        DTYPE_CODES[q.dtype],
        torch.cuda.current_stream().cuda_stream,
    )
    return out


@BY_MASK
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_as_right_as_rounding_allows(
    shape: tuple[int, ...], causal: Causal, dtype: torch.dtype
) -> None:
    """Against float64 it is off by little more than the rounding of its output."""
    batch, heads, kv_heads, q_len, k_len, head_dim = shape
    q = torch.randn(batch, heads, q_len, head_dim, device="cuda", dtype=dtype)
    k, v = torch.randn(2, batch, kv_heads, k_len, head_dim, device="cuda", dtype=dtype)
    out = by_reference_kernel(q, k, v, causal, head_dim**-0.5)
    expected = reference.attention(q, k, v, **for_reference(causal))
    tolerance = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=1e-6)


@BY_MASK
@pytest.mark.parametrize("heads", [3, 20, 300], ids=["few", "some", "many"])
@pytest.mark.parametrize("scale", [0.125, -0.3, 2.0])
def test_the_kernels_agree_with_it(
    heads: int, scale: float, causal: Causal, dtype: torch.dtype
) -> None:
    """Every family differs from it by the rounding of probabilities and output alone."""
    q, k, v = torch.randn(3, 1, heads, 333, 64, device="cuda", dtype=dtype)
    out = torch_attention.attention(q, k, v, **for_ours(causal), scale=scale)
    expected = by_reference_kernel(q, k, v, causal, scale)
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(out.float(), expected.float(), rtol=tolerance, atol=tolerance)


def test_masked_keys_play_no_part_whatever_they_hold(dtype: torch.dtype) -> None:
    """NaN and infinity in keys and values reach the rows that see them and no others."""
    q, k, v = torch.randn(3, 1, 2, 64, 64, device="cuda", dtype=dtype)
    k[:, :, 40], v[:, :, 50] = math.nan, math.inf
    out = by_reference_kernel(q, k, v, True, 0.125)
    assert out[:, :, :40].isfinite().all()
    assert out[:, :, 40:].isnan().all()
