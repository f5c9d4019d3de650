"""The CUDA kernels for a few keys: a group of lanes owns a query row (csrc/cuda/simt)."""

import math

import pytest
import torch
from gpu.test_cuda_attention import assert_right, assert_same_bits
from gpu.test_cuda_decode import BY_MASK, grouped, qkv
from gpu.test_cuda_layouts import LAYOUTS, call

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from flashbench.kernels import torch_attention
from flashbench.measuring.inspect import kernels_of
from flashbench.operations.attention.operation import Causal

if not torch_attention._C.cuda_dtypes():
    pytest.skip("flashbench._C was built without CUDA kernels", allow_module_level=True)

# Whole and part rounds of a group of lanes, and of the groups of a block. Head dims above 128 have
# another family beyond 32 keys.
KEYS = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 50, 63, 64]
# Batch, key heads, queries and query heads of a key head: one row, a part of a warp, many blocks.
PLACES = [(1, 1, 1, 1), (1, 1, 3, 1), (2, 3, 1, 7), (3, 2, 17, 2), (40, 4, 1, 4)]


@BY_MASK
@pytest.mark.parametrize("k_len", KEYS)
@pytest.mark.parametrize("places", PLACES, ids=str)
def test_lengths(
    places: tuple[int, int, int, int], k_len: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Any number of rows and keys is right at every head dim."""
    batch, kv_heads, q_len, group = places
    for dim in (*range(32, 257, 32), 40, 72, 136):
        q, k, v = qkv(batch, kv_heads, group, q_len, k_len, dim, dtype)
        assert_right(grouped(q, k, v, causal), q, k, v, causal)


@pytest.mark.parametrize("q_len", KEYS)
def test_first_queries_of_long_keys(q_len: int, dtype: torch.dtype) -> None:
    """A mask at the top left leaves few queries few keys; the others are not read."""
    q, k, v = qkv(2, 3, 4, q_len, 300, 128, dtype)
    clean = grouped(q, k, v, True)
    k[:, :, q_len:] = math.nan
    v[:, :, q_len:] = math.inf
    out = grouped(q, k, v, True)
    assert_same_bits(out, clean)
    assert_right(out, q, k[:, :, :q_len], v[:, :, :q_len], True)


def test_one_key_gives_its_value(dtype: torch.dtype) -> None:
    """The weight of the only key is exactly 1, whatever its score."""
    for dim in (40, 64, 128, 256):
        q, k, v = qkv(3, 5, 2, 1, 1, dim, dtype)
        assert_same_bits(grouped(100 * q, k, v), v.repeat_interleave(2, 1))


@BY_MASK
@pytest.mark.parametrize("dim", [64, 104, 256])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, dim: int, causal: Causal, dtype: torch.dtype) -> None:
    """Strided and unaligned views give the contiguous bits, also of the output."""
    view = LAYOUTS[layout]
    for q_len, k_len in ((1, 1), (3, 7), (2, 16), (2, 50)):
        q, k, v = qkv(2, 3, 4, q_len, k_len, dim, dtype)
        expected = grouped(q, k, v, causal)
        for views in ((view(q), k, v), (q, view(k), v), (q, k, view(v))):
            assert_same_bits(grouped(*views, causal), expected)
        out = view(torch.full_like(q, math.nan))
        call(view(q), view(k), view(v), out, causal)
        assert_same_bits(out, expected)


@BY_MASK
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_nan_and_inf_propagate(where: str, bad: float, causal: Causal, dtype: torch.dtype) -> None:
    """A NaN or an infinity anywhere gives what a float64 softmax gives, and only there."""
    for q_len, k_len in ((1, 1), (1, 5), (4, 8), (3, 16), (2, 61)):
        q, k, v = qkv(2, 2, 4, q_len, k_len, 64, dtype)
        clean = grouped(q, k, v, causal)
        tensor = {"q": q, "k": k, "v": v}[where]
        tensor[0, 0, -1, 7] = bad
        out = grouped(q, k, v, causal)
        assert_right(out, q, k, v, causal)
        assert_same_bits(out[:, 4:], clean[:, 4:])
        assert_same_bits(out[1], clean[1])
        if causal:
            assert_same_bits(out[:, :4, :-1], clean[:, :4, :-1])


def test_scores_of_minus_infinity(dtype: torch.dtype) -> None:
    """Keys at -inf weigh nothing, however low the others; a row of them gives NaN."""
    for k_len in (7, 13, 64):
        q, k, v = qkv(1, 2, 4, 3, k_len, 64, dtype)
        q[..., 0] = 1
        k[:, 0, :-2, 0] = -math.inf
        k[:, 0, -2:, 0] = -500  # far below a base of 0
        k[:, 1, :, 0] = -math.inf
        out = grouped(q, k, v)
        assert out[:, 4:].isnan().all()
        assert_right(out, q, k, v, False)


@pytest.mark.parametrize("scale", [-0.5, 0.0, 1e-3, 30.0])
def test_scale(scale: float, dtype: torch.dtype) -> None:
    """Any scale is right, also those that tensor cores' kernels leave to others."""
    q, k, v = qkv(2, 2, 3, 2, 11, 96, dtype)
    out = torch_attention.attention(q, k, v, scale=scale, enable_gqa=True)
    assert_right(out, q, k, v, False, scale)


@BY_MASK
def test_a_row_does_not_depend_on_the_others(causal: Causal, dtype: torch.dtype) -> None:
    """The bits of a batch are those of its parts, and the same in every run."""
    q, k, v = qkv(5, 3, 2, 4, 40, 128, dtype)
    whole = grouped(q, k, v, causal)
    for _ in range(5):
        assert_same_bits(grouped(q, k, v, causal), whole)
    for i in range(5):
        one = slice(i, i + 1)
        assert_same_bits(grouped(q[one], k[one], v[one], causal), whole[one])


def test_a_call_is_one_operation_of_these_kernels(dtype: torch.dtype) -> None:
    """One query under a mask at the top left sees one key, however many there are."""
    q, k, v = qkv(1, 8, 4, 1, 4096, 128, dtype)
    grouped(q, k, v, True)
    ((name, _),) = kernels_of(lambda: grouped(q, k, v, True))
    assert "simt" in name
