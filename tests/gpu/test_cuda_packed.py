"""Chunks of queries over many keys: grouped heads fill the tiles, all SMs share the keys.

Few key heads with thousands of keys take these kernels (csrc/cuda/families.h); with a causal mask,
if it is aligned so that most keys are seen by all queries.
"""

import math

import pytest
import torch
from gpu.test_cuda_attention import assert_right, assert_same_bits, randn
from gpu.test_cuda_decode import grouped, qkv
from gpu.test_cuda_layouts import LAYOUTS, call

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)
if torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("these kernels are Hopper's", allow_module_level=True)

from flashbench.kernels import torch_attention
from flashbench.measuring.inspect import kernels_of
from flashbench.operations.attention.operation import Causal

if not torch_attention._C.cuda_dtypes():
    pytest.skip("flashbench._C was built without CUDA kernels", allow_module_level=True)

DIMS = pytest.mark.parametrize("dim", [64, 72, 128, 192, 256])
BY_MASK = pytest.mark.parametrize("causal", [False, "bottom_right"], ids=["full", "bottom_right"])


@DIMS
def test_a_call_is_two_operations_of_packed_rows(dim: int, dtype: torch.dtype) -> None:
    """The shapes of these tests are those of these kernels; shorter keys are another's."""
    q, k, v = qkv(1, 8, 4, 64, 9000, dim, dtype)
    names = kernels_of(lambda: grouped(q, k, v, "bottom_right"))
    assert len(names) == 2
    assert "forward_packed" in names[0][0]
    assert "merge_tail" in names[1][0]
    q, k, v = qkv(1, 8, 4, 64, 200, dim, dtype)
    assert len(kernels_of(lambda: grouped(q, k, v, "bottom_right"))) == 1


@BY_MASK
@DIMS
@pytest.mark.parametrize("group", [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 40, 64])
def test_groups(group: int, dim: int, causal: Causal, dtype: torch.dtype) -> None:
    """Groups that divide a tile's rows and groups that leave some are right at any query length."""
    for q_len in (33, 64, 100, 129):
        q, k, v = qkv(1, 2, group, q_len, 8200 + q_len, dim, dtype)
        assert_right(grouped(q, k, v, causal), q, k, v, causal)


@BY_MASK
@DIMS
@pytest.mark.parametrize("k_len", [8192, 8193, 8319, 9000, 20011])
@pytest.mark.parametrize("places", [(1, 1), (1, 3), (2, 8), (3, 5)], ids=str)
def test_lengths(
    places: tuple[int, int], k_len: int, dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Any number of tiles and keys is right, also where shares end inside a tile."""
    for q_len in (40, 64, 200):
        q, k, v = qkv(*places, 4, q_len, k_len, dim, dtype)
        assert_right(grouped(q, k, v, causal), q, k, v, causal)


@BY_MASK
@pytest.mark.parametrize("dim", range(32, 257, 8))
def test_head_dims(dim: int, causal: Causal, dtype: torch.dtype) -> None:
    """Every head dim is right, with the dims past it never read."""
    q, k, v = qkv(1, 2, 4, 70, 8300, dim, dtype)
    assert_right(grouped(q, k, v, causal), q, k, v, causal)


@BY_MASK
@DIMS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, dim: int, causal: Causal, dtype: torch.dtype) -> None:
    """Strided and unaligned views give the contiguous bits, also of the output."""
    view = LAYOUTS[layout]
    for group in (1, 3, 4):
        q, k, v = qkv(2, 2, group, 75, 8300, dim, dtype)
        expected = grouped(q, k, v, causal)
        assert_same_bits(grouped(view(q), view(k), view(v), causal), expected)
        out = view(torch.full_like(q, math.nan))
        call(view(q), view(k), view(v), out, causal)
        assert_same_bits(out, expected)


@BY_MASK
@DIMS
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_nan_and_inf_propagate(
    where: str, bad: float, dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """A NaN or an infinity anywhere gives what a float64 softmax gives, and only there."""
    q, k, v = qkv(1, 2, 4, 100, 8300, dim, dtype)
    clean = grouped(q, k, v, causal)
    tensor = {"q": q, "k": k, "v": v}[where]
    for back in (40, 90):
        tensor[0, 0, tensor.shape[2] - back, 7] = bad
    out = grouped(q, k, v, causal)
    assert_right(out, q, k, v, causal)
    assert_same_bits(out[:, 4:], clean[:, 4:])
    if causal:
        assert_same_bits(out[:, :4, :10], clean[:, :4, :10])


@BY_MASK
def test_scores_of_minus_infinity(causal: Causal, dtype: torch.dtype) -> None:
    """Keys at -inf weigh nothing, also when they are all of a part; a row of them gives NaN."""
    q, k, v = qkv(1, 2, 4, 64, 8300, 128, dtype)
    q[..., 0] = 1
    k[:, 0, :5000, 0] = -math.inf
    k[:, 1, :, 0] = -math.inf
    out = grouped(q, k, v, causal)
    assert out[:, 4:].isnan().all()
    assert_right(out, q, k, v, causal)


@DIMS
def test_outliers(dim: int, dtype: torch.dtype) -> None:
    """One element in a thousand with a deviation of 10 costs no accuracy."""
    tensors = []
    for x in qkv(1, 2, 4, 64, 8192, dim, dtype):
        outliers = 10 * torch.randn_like(x) * (torch.rand(x.shape, device="cuda") < 1e-3)
        tensors.append(x + outliers)
    assert_right(grouped(*tensors, "bottom_right"), *tensors, "bottom_right")


@BY_MASK
@DIMS
def test_runs_are_bit_equal(dim: int, causal: Causal, dtype: torch.dtype) -> None:
    """The same inputs give the same bits every time, whichever block ends first."""
    for shape in ((1, 8, 4, 64, 16384), (1, 3, 5, 70, 9000), (2, 2, 1, 200, 8192)):
        q, k, v = qkv(*shape, dim, dtype)
        first = grouped(q, k, v, causal)
        for _ in range(10):
            assert_same_bits(grouped(q, k, v, causal), first)


def test_a_row_does_not_depend_on_the_others(dtype: torch.dtype) -> None:
    """The heads of a group share tiles, not bits: each row is that of a call with other rows."""
    q, k, v = qkv(1, 2, 4, 64, 9000, 128, dtype)
    expected = grouped(q, k, v, "bottom_right")
    changed = q.clone()
    changed[:, ::2] = 30 * randn(1, 4, 64, 128, dtype=dtype)
    out = grouped(changed, k, v, "bottom_right")
    assert_same_bits(out[:, 1::2], expected[:, 1::2])
