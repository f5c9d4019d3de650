"""Few heads under a causal mask: all SMs share the keys of every tile.

Packed tiles (test_cuda_packed.py) take them where a tile that sees all keys would take longer
(csrc/cuda/sm90/few_heads.h).
"""

import math

import pytest
import torch
from gpu.test_cuda_attention import assert_right, assert_same_bits, randn
from gpu.test_cuda_decode import grouped, qkv
from gpu.test_cuda_layouts import LAYOUTS, call
from gpu.test_cuda_packed import packed

DIMS = pytest.mark.parametrize("dim", [40, 72, 128, 192, 256])
# Batch and heads, and lengths about the ends of tiles and blocks of keys.
PLACES = [(1, 1, 5300), (1, 2, 4096), (1, 2, 4161), (2, 1, 4223), (1, 3, 3329)]


@DIMS
@pytest.mark.parametrize("places", PLACES, ids=str)
def test_lengths(places: tuple[int, int, int], dim: int, dtype: torch.dtype) -> None:
    """Tiles and blocks of keys that are not full are right, in one head and in several."""
    batch, heads, length = places
    q, k, v = qkv(batch, heads, 1, length, length, dim, dtype)
    assert_right(packed(q, k, v, True), q, k, v, True)


@pytest.mark.parametrize("dim", [40, 128, 256])
@pytest.mark.parametrize(("group", "length"), [(2, 4100), (3, 4100), (4, 3500)])
def test_groups(group: int, length: int, dim: int, dtype: torch.dtype) -> None:
    """The heads of a key head share tiles, also where they leave rows of them."""
    q, k, v = qkv(1, 1, group, length, length, dim, dtype)
    assert_right(packed(q, k, v, True), q, k, v, True)


@pytest.mark.parametrize("dim", [40, 72, 128, 256])
@pytest.mark.parametrize(
    ("kv_heads", "group", "length"), [(3, 1, 6388), (2, 1, 9000), (1, 2, 9001)]
)
def test_more_tiles_than_sms(
    kv_heads: int, group: int, length: int, dim: int, dtype: torch.dtype
) -> None:
    """An SM's share of the keys may then begin and end within one tile, or hold whole ones."""
    q, k, v = qkv(1, kv_heads, group, length, length, dim, dtype)
    assert_right(packed(q, k, v, True), q, k, v, True)


@DIMS
@pytest.mark.parametrize("lengths", [(4100, 5000), (5000, 4100), (4500, 4501)], ids=str)
def test_different_lengths(lengths: tuple[int, int], dim: int, dtype: torch.dtype) -> None:
    """Keys that no query sees, and queries that see all keys."""
    q, k, v = qkv(1, 2, 1, *lengths, dim, dtype)
    assert_right(packed(q, k, v, True), q, k, v, True)


@DIMS
@pytest.mark.parametrize("further", [1, 100, 1500])
def test_aligned_at_the_end(further: int, dim: int, dtype: torch.dtype) -> None:
    """A mask aligned at the end, with fewer keys before it than under it."""
    q, k, v = qkv(1, 2, 1, 4000, 4000 + further, dim, dtype)
    assert_right(packed(q, k, v, "bottom_right"), q, k, v, "bottom_right")


@pytest.mark.parametrize("dim", [*range(72, 257, 8), 40, 56])
def test_head_dims(dim: int, dtype: torch.dtype) -> None:
    """Every head dim that takes them is right, with the dims past it never read."""
    q, k, v = qkv(1, 1, 1, 5300, 5300, dim, dtype)
    assert_right(packed(q, k, v, True), q, k, v, True)


@DIMS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, dim: int, dtype: torch.dtype) -> None:
    """Strided and unaligned views give the contiguous bits, also of the output."""
    view = LAYOUTS[layout]
    q, k, v = qkv(1, 2, 1, 4100, 4100, dim, dtype)
    expected = packed(q, k, v, True)
    assert_same_bits(packed(view(q), view(k), view(v), True), expected)
    out = view(torch.full_like(q, math.nan))
    call(view(q), view(k), view(v), out, True)
    assert_same_bits(out, expected)


@DIMS
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_nan_and_inf_propagate(where: str, bad: float, dim: int, dtype: torch.dtype) -> None:
    """A NaN or an infinity reaches the rows that see it, and only those."""
    q, k, v = qkv(1, 2, 1, 4100, 4100, dim, dtype)
    clean = packed(q, k, v, True)
    tensor = {"q": q, "k": k, "v": v}[where]
    for row in (1000, 3071, 4099):
        tensor[0, 0, row, 7] = bad
    out = packed(q, k, v, True)
    assert_right(out, q, k, v, True)
    assert_same_bits(out[:, 1], clean[:, 1])
    assert_same_bits(out[:, 0, :1000], clean[:, 0, :1000])


@DIMS
def test_scores_of_minus_infinity(dim: int, dtype: torch.dtype) -> None:
    """Keys at -inf weigh nothing, also when they are all of a part; a row of them gives NaN."""
    q, k, v = qkv(1, 2, 1, 4100, 4100, dim, dtype)
    q[..., 0] = 1
    k[:, 0, 1:2000, 0] = -math.inf
    k[:, 1, :3000, 0] = -math.inf
    out = packed(q, k, v, True)
    assert out[:, 1, :3000].isnan().all()
    assert_right(out, q, k, v, True)


@DIMS
def test_runs_are_bit_equal(dim: int, dtype: torch.dtype) -> None:
    """The same inputs give the same bits every time, whichever block ends first."""
    for heads, length in ((1, 5300), (2, 4161), (3, 3329)):
        q, k, v = qkv(1, heads, 1, length, length, dim, dtype)
        first = packed(q, k, v, True)
        for _ in range(10):
            assert_same_bits(grouped(q, k, v, True), first)


def test_a_row_does_not_depend_on_later_ones(dtype: torch.dtype) -> None:
    """What a row may not see does not change its bits."""
    q, k, v = qkv(1, 2, 1, 4100, 4100, 128, dtype)
    expected = packed(q, k, v, True)
    for x in (q, k, v):
        x[:, :, 2000:] = 30 * randn(1, 2, 2100, 128, dtype=dtype)
    assert_same_bits(packed(q, k, v, True)[:, :, :2000], expected[:, :, :2000])
