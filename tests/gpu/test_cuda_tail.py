"""Full attention whose last tiles are divided among all SMs by keys, and whose parts are added up.

Which launches are divided depends on the number of tiles and SMs (csrc/cuda/sm90/tail.h): these
have tiles for a part of the SMs, alone or after whole rounds. With fewer tiles packed rows take
them (csrc/cuda/families.h, test_cuda_packed.py).
"""

import math

import pytest
import torch
from gpu.test_cuda_attention import assert_right, assert_same_bits, randn
from gpu.test_cuda_decode import assert_graphs_replay_side_by_side, grouped
from gpu.test_cuda_layouts import LAYOUTS, call
from torch import Tensor

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)
if torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("tails are divided on Hopper GPUs alone", allow_module_level=True)

from flashbench.kernels import torch_attention
from flashbench.measuring.inspect import kernels_of

if not torch_attention._C.cuda_dtypes():
    pytest.skip("flashbench._C was built without CUDA kernels", allow_module_level=True)

DIMS = pytest.mark.parametrize("dim", [40, 64, 80, 88, 96, 112, 128, 176, 192, 208, 256])


def qkv(
    batch: int, heads: int, kv_heads: int, q_len: int, k_len: int, dim: int, dtype: torch.dtype
) -> list[Tensor]:
    return [
        randn(batch, heads, q_len, dim, dtype=dtype),
        randn(batch, kv_heads, k_len, dim, dtype=dtype),
        randn(batch, kv_heads, k_len, dim, dtype=dtype),
    ]


def kernels(q: Tensor, k: Tensor, v: Tensor) -> list[str]:
    grouped(q, k, v)
    return [name for name, _ in kernels_of(lambda: grouped(q, k, v))]


@DIMS
def test_a_divided_call_is_two_operations(dim: int, dtype: torch.dtype) -> None:
    """Thirteen heads of 1000 rows leave some SMs without a tile; what fills them is not divided."""
    names = kernels(*qkv(1, 13, 13, 1000, 16384, dim, dtype))
    assert len(names) == 2
    assert "forward<" in names[0]
    assert "merge_tail" in names[1]
    if dim > 88:
        assert len(kernels(*qkv(1, 5, 5, 4096, 4096, dim, dtype))) == 2
    assert len(kernels(*qkv(1, 66, 66, 384, 384, dim, dtype))) == 1


@DIMS
@pytest.mark.parametrize("k_len", [8192, 8193, 8319, 9000, 10011])
@pytest.mark.parametrize("heads", [13, 18, 20])
def test_lengths(heads: int, k_len: int, dim: int, dtype: torch.dtype) -> None:
    """Any number of tiles and keys is right, also where shares end inside a tile."""
    for q_len in (930, 1000):
        q, k, v = qkv(1, heads, 1, q_len, k_len, dim, dtype)
        assert_right(grouped(q, k, v), q, k, v, False)


@pytest.mark.parametrize("dim", range(32, 257, 8))
def test_head_dims(dim: int, dtype: torch.dtype) -> None:
    """Every head dim is right, after whole rounds and without."""
    for shape in ((1, 34, 34, 333, 8200), (1, 20, 4, 2500, 2048)):
        q, k, v = qkv(*shape, dim, dtype)
        assert_right(grouped(q, k, v), q, k, v, False)


@DIMS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, dim: int, dtype: torch.dtype) -> None:
    """Strided and unaligned views give the contiguous bits, also of the output."""
    view = LAYOUTS[layout]
    q, k, v = qkv(2, 26, 13, 200, 8300, dim, dtype)
    expected = grouped(q, k, v)
    assert_same_bits(grouped(view(q), view(k), view(v)), expected)
    out = view(torch.full_like(q, math.nan))
    call(view(q), view(k), view(v), out, False)
    assert_same_bits(out, expected)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_nan_and_inf_propagate(where: str, bad: float, dtype: torch.dtype) -> None:
    """A NaN or an infinity anywhere gives what a float64 softmax gives, and only there."""
    for dim in (64, 128):
        q, k, v = qkv(1, 52, 26, 200, 8300, dim, dtype)
        clean = grouped(q, k, v)
        tensor = {"q": q, "k": k, "v": v}[where]
        tensor[0, 0, tensor.shape[2] - 1, 7] = bad
        out = grouped(q, k, v)
        assert_right(out, q, k, v, False)
        assert_same_bits(out[:, 2:], clean[:, 2:])


def test_scores_of_minus_infinity(dtype: torch.dtype) -> None:
    """Keys at -inf weigh nothing, also when they are all of a part; a row of them gives NaN."""
    q, k, v = qkv(1, 52, 26, 200, 8300, 64, dtype)
    q[..., 0] = 1
    k[:, 0, :5000, 0] = -math.inf
    k[:, 1:, :, 0] = -math.inf
    out = grouped(q, k, v)
    assert out[:, 2:].isnan().all()
    assert_right(out, q, k, v, False)


@DIMS
def test_runs_are_bit_equal(dim: int, dtype: torch.dtype) -> None:
    """The same inputs give the same bits every time, whichever block ends first."""
    for shape in ((1, 34, 34, 333, 9000), (1, 20, 4, 2500, 2048)):
        q, k, v = qkv(*shape, dim, dtype)
        first = grouped(q, k, v)
        for _ in range(10):
            assert_same_bits(grouped(q, k, v), first)


def test_graphs_replay_side_by_side(dtype: torch.dtype) -> None:
    """Graphs of divided calls have scratch memory of their own, and can run at once."""
    assert_graphs_replay_side_by_side(qkv(1, 20, 4, 2500, 2048, 128, dtype) for _ in range(3))
