"""The CUDA kernels for a few queries over many keys: grouped heads as rows, keys split and merged.

The number of key heads decides on the tile and on how its keys are split (csrc/cuda/decode).
"""

import math
from collections.abc import Iterable

import pytest
import torch
from gpu.test_cuda_attention import assert_right, assert_same_bits, randn
from gpu.test_cuda_layouts import LAYOUTS, call
from masks import for_ours
from torch import Tensor

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from flashbench.kernels import torch_attention
from flashbench.measuring.inspect import kernels_of
from flashbench.operations.attention.operation import Causal

if not torch_attention._C.cuda_dtypes():
    pytest.skip("flashbench._C was built without CUDA kernels", allow_module_level=True)

attention = torch_attention.attention

# Query heads of a key head and queries, for tiles of 16, 32 and 64 rows and several of them.
ROWS = [(1, 1), (4, 1), (16, 1), (5, 3), (4, 8), (8, 8), (3, 16), (4, 16), (16, 16)]
# Batch and key heads: more tiles than SMs, some, few, one.
PLACES = [(50, 3), (2, 8), (1, 4), (1, 1)]
KEYS = [1, 17, 63, 64, 65, 257, 513, 1023, 1500, 4097]
BY_MASK = pytest.mark.parametrize("causal", [False, "bottom_right"], ids=["full", "bottom_right"])
BOTH_MANY = pytest.mark.parametrize("batch", [1, 70], ids=["few", "many"])


def qkv(
    batch: int, kv_heads: int, group: int, q_len: int, k_len: int, dim: int, dtype: torch.dtype
) -> list[Tensor]:
    return [
        randn(batch, kv_heads * group, q_len, dim, dtype=dtype),
        randn(batch, kv_heads, k_len, dim, dtype=dtype),
        randn(batch, kv_heads, k_len, dim, dtype=dtype),
    ]


def grouped(q: Tensor, k: Tensor, v: Tensor, causal: Causal = False) -> Tensor:
    return attention(q, k, v, **for_ours(causal), enable_gqa=True)


@BY_MASK
@pytest.mark.parametrize("k_len", KEYS)
@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_lengths(
    rows: tuple[int, int],
    places: tuple[int, int],
    k_len: int,
    causal: Causal,
    dtype: torch.dtype,
) -> None:
    """Any number of rows, tiles and keys is right."""
    batch, kv_heads = places
    group, q_len = rows
    for dim in (64, 128, 256):
        q, k, v = qkv(batch, kv_heads, group, q_len, k_len, dim, dtype)
        assert_right(grouped(q, k, v, causal), q, k, v, causal)


@pytest.mark.parametrize("batch", [1, 150])
def test_few_keys_of_wide_heads(batch: int, dtype: torch.dtype) -> None:
    """Heads of 256 dims without groups come here with any number of keys."""
    for k_len in (1, 15, 16, 100, 500):
        q, k, v = qkv(batch, 3, 1, 8, k_len, 256, dtype)
        assert_right(grouped(q, k, v), q, k, v, False)


@BY_MASK
@pytest.mark.parametrize("group", range(1, 17))
def test_every_group_and_query_length(group: int, causal: Causal, dtype: torch.dtype) -> None:
    """All groups to 16 with all query lengths to 16 are right."""
    for q_len in range(1, 17):
        q, k, v = qkv(1, 2, group, q_len, 1100 + q_len, 64 if q_len % 2 else 128, dtype)
        assert_right(grouped(q, k, v, causal), q, k, v, causal)


@BY_MASK
@BOTH_MANY
@pytest.mark.parametrize("dim", range(32, 257, 8))
def test_head_dims(dim: int, batch: int, causal: Causal, dtype: torch.dtype) -> None:
    """Every head dim is right, with the dims past it never read."""
    for group, q_len in ((4, 1), (4, 7), (4, 16)):
        q, k, v = qkv(batch, 2, group, q_len, 1301, dim, dtype)
        assert_right(grouped(q, k, v, causal), q, k, v, causal)


@BY_MASK
@pytest.mark.parametrize("kv_heads", [1, 2, 3, 8])
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_long_keys(dim: int, kv_heads: int, causal: Causal, dtype: torch.dtype) -> None:
    """Keys longer than a cluster takes well are right, however few the heads."""
    for k_len in (20001, 131072):
        q, k, v = qkv(1, kv_heads, 4, 3, k_len, dim, dtype)
        assert_right(grouped(q, k, v, causal), q, k, v, causal)


@BY_MASK
@pytest.mark.parametrize(("batch", "kv_heads"), [(1, 3), (2, 6), (3, 8), (11, 4), (7, 7)])
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_keys_from_memory(
    batch: int, kv_heads: int, dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """More keys than L2 holds are right by whichever tile and division, also of 32 rows."""
    k_len = (96 << 20) // (batch * kv_heads * dim * 4) + 7
    for group, q_len in ((4, 1), (2, 4), (4, 8)):
        q, k, v = qkv(batch, kv_heads, group, q_len, k_len, dim, dtype)
        assert_right(grouped(q, k, v, causal), q, k, v, causal)


@BY_MASK
@BOTH_MANY
@pytest.mark.parametrize("dim", [64, 104, 128, 256])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, dim: int, batch: int, causal: Causal, dtype: torch.dtype) -> None:
    """Strided and unaligned views give the contiguous bits, also of the output."""
    view = LAYOUTS[layout]
    for kv_heads, group, q_len, k_len in ((2, 4, 1, 700), (2, 4, 6, 700), (1, 4, 2, 20001)):
        if batch > 1 and k_len > 1000:
            continue
        q, k, v = qkv(batch, kv_heads, group, q_len, k_len, dim, dtype)
        expected = grouped(q, k, v, causal)
        assert_same_bits(grouped(view(q), view(k), view(v), causal), expected)
        out = view(torch.full_like(q, math.nan))
        call(view(q), view(k), view(v), out, causal)
        assert_same_bits(out, expected)


@BY_MASK
@BOTH_MANY
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_nan_and_inf_propagate(
    where: str, bad: float, batch: int, causal: Causal, dtype: torch.dtype
) -> None:
    """A NaN or an infinity anywhere gives what a float64 softmax gives, and only there."""
    for group, q_len, k_len in ((4, 1, 700), (4, 5, 700), (4, 13, 1300), (1, 2, 30000)):
        if batch > 1 and k_len > 2000:
            continue
        q, k, v = qkv(batch, 2, group, q_len, k_len, 64, dtype)
        clean = grouped(q, k, v, causal)
        tensor = {"q": q, "k": k, "v": v}[where]
        tensor[0, 0, tensor.shape[2] - 1 - q_len // 2, 7] = bad
        out = grouped(q, k, v, causal)
        assert_right(out, q, k, v, causal)
        assert_same_bits(out[:, group:], clean[:, group:])
        if causal:
            unaware = q_len - 1 - q_len // 2  # queries before it
            assert_same_bits(out[:, :group, :unaware], clean[:, :group, :unaware])


@BY_MASK
@BOTH_MANY
def test_scores_of_minus_infinity(batch: int, causal: Causal, dtype: torch.dtype) -> None:
    """Keys at -inf weigh nothing, also when they are all of a split; a row of them gives NaN."""
    q, k, v = qkv(batch, 2, 4, 3, 2100, 64, dtype)
    q[..., 0] = 1
    k[:, 0, :1500, 0] = -math.inf
    k[:, 1, :, 0] = -math.inf
    out = grouped(q, k, v, causal)
    assert out[:, 4:].isnan().all()
    assert_right(out, q, k, v, causal)


@BOTH_MANY
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_outliers(dim: int, batch: int, dtype: torch.dtype) -> None:
    """One element in a thousand with a deviation of 10 costs no accuracy."""
    tensors = []
    for x in qkv(batch, 2, 4, 4, 1515, dim, dtype):
        outliers = 10 * torch.randn_like(x) * (torch.rand(x.shape, device="cuda") < 1e-3)
        tensors.append(x + outliers)
    assert_right(grouped(*tensors), *tensors, False)


@BY_MASK
@pytest.mark.parametrize("shape", [(1, 8, 4, 1, 4096), (1, 1, 8, 2, 40000), (70, 8, 4, 3, 515)])
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_runs_are_bit_equal(
    shape: tuple[int, int, int, int, int], dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """The same inputs give the same bits every time, whichever block ends first."""
    q, k, v = qkv(*shape, dim, dtype)
    first = grouped(q, k, v, causal)
    for _ in range(20):
        assert_same_bits(grouped(q, k, v, causal), first)


def test_a_call_is_one_operation_or_two(dtype: torch.dtype) -> None:
    """A cluster merges what it splits; only very few heads with long keys take a second kernel.

    Without clusters, in code of sm_80, a second one always merges. Rows that see no key take one of
    their own.
    """
    archs = torch_attention._C.build_info()["cuda_archs"]
    has_clusters = torch.cuda.get_device_capability() == (9, 0) and "90a" in archs
    divided = 1 if has_clusters else 2
    q, k, v = qkv(1, 8, 4, 5, 3, 128, dtype)
    grouped(q, k, v, "bottom_right")
    assert len(kernels_of(lambda: grouped(q, k, v, "bottom_right"))) == 2
    q, k, v = qkv(1, 8, 4, 4, 4096, 128, dtype)
    grouped(q, k, v, "bottom_right")
    assert len(kernels_of(lambda: grouped(q, k, v, "bottom_right"))) == divided
    q, k, v = qkv(1, 8, 4, 1, 4096, 128, dtype)
    grouped(q, k, v)
    assert len(kernels_of(lambda: grouped(q, k, v))) == divided
    q, k, v = qkv(1, 1, 8, 1, 65536, 128, dtype)
    grouped(q, k, v)
    assert 1 <= len(kernels_of(lambda: grouped(q, k, v))) <= 2


def assert_graphs_replay_side_by_side(problems: Iterable[list[Tensor]]) -> None:
    """Graphs of calls that merge through scratch memory have their own, and can run at once."""
    calls = []
    for q, k, v in problems:
        grouped(q, k, v)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = grouped(q, k, v)
        for x in (q, k, v):
            x.normal_()
        calls.append((graph, torch.cuda.Stream(), out, grouped(q, k, v), (q, k, v)))
    torch.cuda.synchronize()
    for _ in range(5):
        for graph, stream, *_ in calls:
            with torch.cuda.stream(stream):
                graph.replay()
        grouped(q, k, v)  # an eager call beside them
    torch.cuda.synchronize()
    for _, _, out, expected, _ in calls:
        assert_same_bits(out, expected)


def test_graphs_replay_side_by_side(dtype: torch.dtype) -> None:
    """The keys of one head, divided among clusters."""
    assert_graphs_replay_side_by_side(qkv(1, 1, 8, 2, 50000, 128, dtype) for _ in range(4))
