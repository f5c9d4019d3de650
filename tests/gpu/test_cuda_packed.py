"""Chunks of queries over many keys: grouped heads fill the tiles, all SMs share the keys.

Few key heads with thousands of keys take these kernels (csrc/cuda/families.h); with a causal mask,
if it is aligned so that most keys are seen by all queries.
"""

import math

import pytest
import torch
from gpu.test_cuda_attention import assert_right, assert_same_bits, randn
from gpu.test_cuda_decode import assert_graphs_replay_side_by_side, grouped, qkv
from gpu.test_cuda_layouts import LAYOUTS, call
from torch import Tensor

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


# Groups, key heads and queries: whole tiles, rows left over, more than one tile.
GROUPS = [
    *((group, 4, q_len) for group in (2, 3, 4, 5, 6) for q_len in (33, 37)),
    *((group, 2, q_len) for group in (7, 8, 11, 16, 40) for q_len in (33, 37)),
    (64, 2, 30),
]


def queries(count: int, fewer: int, dim: int, causal: Causal) -> int:
    """`count`, or `fewer` where `count` fills packed tiles so badly that main's are faster.

    That is without a mask, for head dims that packed tiles round up most.
    """
    return fewer if not causal and (64 < dim <= 80 or 128 < dim <= 176) else count


def packed(q: Tensor, k: Tensor, v: Tensor, causal: Causal) -> Tensor:
    """The output of these kernels, which are two operations."""
    out = grouped(q, k, v, causal)
    first, second = (name for name, _ in kernels_of(lambda: grouped(q, k, v, causal)))
    assert "forward_packed" in first
    assert "merge_tail" in second
    return out


@BY_MASK
@DIMS
def test_few_keys(dim: int, causal: Causal, dtype: torch.dtype) -> None:
    """Few keys are another kernel's."""
    q, k, v = qkv(1, 8, 4, 64, 500, dim, dtype)
    names = [name for name, _ in kernels_of(lambda: grouped(q, k, v, causal))]
    assert names
    assert not any("forward_packed" in name for name in names)


@BY_MASK
@DIMS
@pytest.mark.parametrize(("group", "kv_heads", "q_len"), GROUPS)
def test_groups(
    group: int, kv_heads: int, q_len: int, dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Groups that divide a tile's rows and groups that leave some are right."""
    q, k, v = qkv(1, kv_heads, group, q_len, 8200 + q_len, dim, dtype)
    assert_right(packed(q, k, v, causal), q, k, v, causal)


@DIMS
@pytest.mark.parametrize("q_len", [65, 100, 129])
def test_heads_of_their_own(q_len: int, dim: int, dtype: torch.dtype) -> None:
    """Without groups rows are packed under a mask, which keeps other kernels from dividing keys."""
    q, k, v = qkv(1, 4, 1, q_len, 8300, dim, dtype)
    assert_right(packed(q, k, v, "bottom_right"), q, k, v, "bottom_right")


@BY_MASK
@DIMS
@pytest.mark.parametrize("k_len", [8192, 8193, 8319, 9000, 20011])
@pytest.mark.parametrize("places", [(1, 4), (1, 5), (2, 2)], ids=str)
def test_lengths(
    places: tuple[int, int], k_len: int, dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Any number of tiles and keys is right, also where shares end inside a tile."""
    for q_len in (40, queries(70, 60, dim, causal)):
        q, k, v = qkv(*places, 4, q_len, k_len, dim, dtype)
        assert_right(packed(q, k, v, causal), q, k, v, causal)


@BY_MASK
@pytest.mark.parametrize("dim", range(32, 257, 8))
def test_head_dims(dim: int, causal: Causal, dtype: torch.dtype) -> None:
    """Every head dim is right, with the dims past it never read."""
    q, k, v = qkv(1, 2, 4, queries(70, 60, dim, causal), 8300, dim, dtype)
    assert_right(packed(q, k, v, causal), q, k, v, causal)


@BY_MASK
@DIMS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, dim: int, causal: Causal, dtype: torch.dtype) -> None:
    """Strided and unaligned views give the contiguous bits, also of the output."""
    view = LAYOUTS[layout]
    for group in (3, 4, 5):
        q, k, v = qkv(2, 2, group, queries(75, 40, dim, causal), 8300, dim, dtype)
        expected = packed(q, k, v, causal)
        assert_same_bits(packed(view(q), view(k), view(v), causal), expected)
        out = view(torch.full_like(q, math.nan))
        call(view(q), view(k), view(v), out, causal)
        assert_same_bits(out, expected)


@BY_MASK
@DIMS
def test_one_head_or_problem_for_all(dim: int, causal: Causal, dtype: torch.dtype) -> None:
    """Tensors expanded over the batch or the heads give the bits of their copies."""
    q, k, v = qkv(2, 2, 4, queries(75, 60, dim, causal), 8300, dim, dtype)
    one_problem = [x[:1].expand_as(x) for x in (q, k, v)]
    one_head = [x[:, :1].expand_as(x) for x in (q, k, v)]
    for views in (one_problem, one_head, (q, *one_problem[1:])):
        own = [x.contiguous() for x in views]
        expected = packed(own[0], own[1], own[2], causal)
        assert_same_bits(packed(views[0], views[1], views[2], causal), expected)


@BY_MASK
@DIMS
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_nan_and_inf_propagate(
    where: str, bad: float, dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """A NaN or an infinity anywhere gives what a float64 softmax gives, and only there."""
    q, k, v = qkv(1, 3, 4, queries(70, 60, dim, causal), 8300, dim, dtype)
    clean = packed(q, k, v, causal)
    tensor = {"q": q, "k": k, "v": v}[where]
    for back in (10, 60):
        tensor[0, 0, tensor.shape[2] - back, 7] = bad
    out = packed(q, k, v, causal)
    assert_right(out, q, k, v, causal)
    assert_same_bits(out[:, 4:], clean[:, 4:])
    if where == "q":  # the other heads of its tiles
        assert_same_bits(out[:, 1:4], clean[:, 1:4])
    if causal:
        assert_same_bits(out[:, :4, :10], clean[:, :4, :10])


@BY_MASK
def test_scores_of_minus_infinity(causal: Causal, dtype: torch.dtype) -> None:
    """Keys at -inf weigh nothing, also when they are all of a part; a row of them gives NaN."""
    q, k, v = qkv(1, 2, 4, 64, 8300, 128, dtype)
    q[..., 0] = 1
    k[:, 0, :5000, 0] = -math.inf
    k[:, 1, :, 0] = -math.inf
    out = packed(q, k, v, causal)
    assert out[:, 4:].isnan().all()
    assert_right(out, q, k, v, causal)


@DIMS
def test_outliers(dim: int, dtype: torch.dtype) -> None:
    """One element in a thousand with a deviation of 10 costs no accuracy."""
    q, k, v = (
        x + 10 * torch.randn_like(x) * (torch.rand(x.shape, device="cuda") < 1e-3)
        for x in qkv(1, 2, 4, 64, 8192, dim, dtype)
    )
    assert_right(packed(q, k, v, "bottom_right"), q, k, v, "bottom_right")


@BY_MASK
@DIMS
def test_runs_are_bit_equal(dim: int, causal: Causal, dtype: torch.dtype) -> None:
    """The same inputs give the same bits every time, whichever block ends first."""
    for shape in ((1, 8, 4, 64, 16384), (1, 4, 5, 70, 9000), (2, 2, 5, 70, 8192)):
        q, k, v = qkv(*shape, dim, dtype)
        first = packed(q, k, v, causal)
        for _ in range(10):
            assert_same_bits(grouped(q, k, v, causal), first)


def test_a_row_does_not_depend_on_the_others(dtype: torch.dtype) -> None:
    """The heads of a group share tiles, not bits: each row is that of a call with other rows."""
    q, k, v = qkv(1, 2, 4, 64, 9000, 128, dtype)
    expected = packed(q, k, v, "bottom_right")
    changed = q.clone()
    changed[:, ::2] = 30 * randn(1, 4, 64, 128, dtype=dtype)
    out = packed(changed, k, v, "bottom_right")
    assert_same_bits(out[:, 1::2], expected[:, 1::2])


def test_graphs_replay_side_by_side(dtype: torch.dtype) -> None:
    """Graphs of packed calls have scratch memory of their own, and can run at once."""
    assert_graphs_replay_side_by_side(qkv(1, 8, 4, 64, 9000, 128, dtype) for _ in range(3))
