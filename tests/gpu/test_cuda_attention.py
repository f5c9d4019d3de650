"""The CUDA kernels against float64: every head dim, lengths that find bugs, layouts, NaN and Inf.

Which kernel computes a problem depends on the number of tiles and the length
(csrc/cuda/families.h), so most tests run with few, some and many heads, and with long sequences.
"""

import math

import pytest
import torch
from masks import IDS, MASKS, for_ours, for_reference, for_sdpa
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from flashbench.operations.attention import truth as reference

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from flashbench.kernels import torch_attention
from flashbench.operations.attention.operation import Causal

if not torch_attention._C.cuda_dtypes():
    pytest.skip("flashbench._C was built without CUDA kernels", allow_module_level=True)

attention = torch_attention.attention

LENGTHS = [
    (1, 1),
    (64, 128),
    (239, 1),
    (799, 3),
    (113, 203),
    (128, 217),
    (384, 256),
    (197, 197),
    (577, 577),
    (65, 700),
    (640, 128),
    (1023, 1024),
    (1024, 1023),
    (4224, 4224),
]
BY_MASK = pytest.mark.parametrize("causal", MASKS, ids=IDS)
FEW, SOME, MANY, LONG = 3, 20, 300, 25
HEADS = pytest.mark.parametrize(
    "heads", [FEW, SOME, MANY, LONG], ids=["few", "some", "many", "long"]
)
# With LONG heads every length is longer by this, beyond the kernels for short sequences.
LONGER = 1100
# One head dim a tile (csrc/cuda/sm90/head_dims.h); of every second one a dim that is padded.
KERNEL_DIMS = [32, 64, 96, 128, 192, 256, 40, 72, 88, 104, 136, 160, 168, 200, 224, 232]


def randn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, device="cuda", dtype=dtype)


def qkv(
    batch: int, heads: int, q_len: int, k_len: int, head_dim: int, dtype: torch.dtype
) -> list[Tensor]:
    longer = LONGER if heads == LONG else 0
    return [
        randn(batch, heads, length + longer, head_dim, dtype=dtype)
        for length in (q_len, k_len, k_len)
    ]


def assert_right(
    out: Tensor, q: Tensor, k: Tensor, v: Tensor, causal: Causal, scale: float | None = None
) -> None:
    """`out` is as close to float64 as the error rule of attention asks."""
    q, k, v = (x.contiguous() for x in (q, k, v))
    expected = reference.attention(q, k, v, **for_reference(causal), scale=scale)
    same_dtype = sdpa(
        q, k, v, **for_sdpa(causal, q, k), scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    result = reference.check(out, expected, same_dtype)
    assert result.correct, result.reason


def assert_same_bits(left: Tensor, right: Tensor) -> None:
    """Equal element by element, NaN and the sign of zero included."""
    left, right = left.contiguous(), right.contiguous()
    assert torch.equal(left.view(torch.int16), right.view(torch.int16))


@BY_MASK
@HEADS
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_lengths(
    lengths: tuple[int, int], head_dim: int, heads: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Lengths around, below and far from the tile sizes are right."""
    if heads == MANY and max(lengths) > 2000:
        heads = 10  # 66 tiles a head are many already
    q, k, v = qkv(1, heads, *lengths, head_dim, dtype)
    assert_right(attention(q, k, v, **for_ours(causal)), q, k, v, causal)


@BY_MASK
@HEADS
@pytest.mark.parametrize("head_dim", range(32, 257, 8))
def test_head_dims(head_dim: int, heads: int, causal: Causal, dtype: torch.dtype) -> None:
    """Every head dim is right in every kernel, also those that fill no tile."""
    q, k, v = qkv(1, heads, 203, 141, head_dim, dtype)
    assert_right(attention(q, k, v, **for_ours(causal)), q, k, v, causal)


@BY_MASK
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("batch", [1, 4, 80], ids=["few", "some", "many"])
def test_grouped_query_heads(batch: int, kv_heads: int, causal: Causal, dtype: torch.dtype) -> None:
    """Grouped heads are right, and bit-equal to keys and values repeated for each query head."""
    q = randn(batch, 8, 300, 64, dtype=dtype)
    k, v = randn(2, batch, kv_heads, 300, 64, dtype=dtype)
    out = attention(q, k, v, **for_ours(causal), enable_gqa=True)
    assert_right(out, q, k, v, causal)
    repeated = (x.repeat_interleave(8 // kv_heads, dim=1) for x in (k, v))
    assert_same_bits(out, attention(q, *repeated, **for_ours(causal)))


@pytest.mark.parametrize("kv_heads", [4, 16])
@pytest.mark.parametrize(
    ("batch", "length", "head_dim"),
    [
        (16, 512, 128),
        (16, 1024, 64),
        (12, 300, 256),
        (24, 768, 128),
        (20, 200, 128),
        (33, 256, 104),
        (13, 640, 80),
        (32, 250, 160),
        (16, 320, 192),
        (32, 256, 256),
        (25, 512, 128),
        (46, 250, 104),
        (25, 320, 192),
        (17, 896, 80),
        (30, 640, 128),
    ],
)
def test_many_causal_heads(
    batch: int, length: int, head_dim: int, kv_heads: int, dtype: torch.dtype
) -> None:
    """Heads that are cut into sections, or go round by round, all or most of them (sections.h)."""
    q = randn(batch, 16, length, head_dim, dtype=dtype)
    k, v = randn(2, batch, kv_heads, length, head_dim, dtype=dtype)
    out = attention(q, k, v, is_causal=True, enable_gqa=True)
    assert_right(out, q, k, v, True)


@pytest.mark.parametrize("head_dim", [104, 192])
@pytest.mark.parametrize("kv_heads", [22, 132])
def test_many_heads_at_the_bottom_right(kv_heads: int, head_dim: int, dtype: torch.dtype) -> None:
    """Heads that go round by round, whose shortest tiles see many keys too."""
    q = randn(1, 132, 250, head_dim, dtype=dtype)
    k, v = randn(2, 1, kv_heads, 400, head_dim, dtype=dtype)
    out = attention(q, k, v, **for_ours("bottom_right"), enable_gqa=True)
    assert_right(out, q, k, v, "bottom_right")


def test_more_heads_than_a_grid_dimension(dtype: torch.dtype) -> None:
    """batch * heads over 65535 is right, however it is split."""
    q, k, v = qkv(2, 35000, 3, 5, 32, dtype)
    out = attention(q, k, v)
    assert_right(out, q, k, v, False)
    for batch, heads in ((1, 70000), (70000, 1)):
        split = (x.view(batch, heads, *x.shape[2:]) for x in (q, k, v))
        assert_same_bits(attention(*split).view(out.shape), out)


@BY_MASK
@HEADS
@pytest.mark.parametrize("head_dim", [64, 104, 256])
def test_nan_in_a_query_stays_in_its_row(
    head_dim: int, heads: int, causal: Causal, dtype: torch.dtype
) -> None:
    """A NaN in one query makes its row NaN and changes no other bit."""
    q, k, v = qkv(1, heads, 150, 150, head_dim, dtype)
    clean = attention(q, k, v, **for_ours(causal))
    q[0, 1, 77, 5] = math.nan
    out = attention(q, k, v, **for_ours(causal))
    assert out[0, 1, 77].isnan().all()
    clean[0, 1, 77] = math.nan
    out[0, 1, 77] = math.nan
    assert_same_bits(out, clean)


@HEADS
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["k", "v"])
@pytest.mark.parametrize("head_dim", [32, 64, 104, 128, 192, 256])
@pytest.mark.parametrize(("causal", "offset"), [(True, 0), ("bottom_right", 23)])
def test_masked_keys_never_contaminate(
    causal: Causal,
    offset: int,
    head_dim: int,
    where: str,
    bad: float,
    heads: int,
    dtype: torch.dtype,
) -> None:
    """NaN and Inf at masked keys change nothing before them, and every expected row after."""
    q, k, v = qkv(1, heads, 300, 300 + offset, head_dim, dtype)
    clean = attention(q, k, v, **for_ours(causal))
    target = k if where == "k" else v
    for row in (40, 177):
        target[0, 1, row + offset, 3] = bad
    out = attention(q, k, v, **for_ours(causal))
    assert_same_bits(out[0, 1, :40], clean[0, 1, :40])
    assert_same_bits(out[0, 0], clean[0, 0])
    assert not out[0, 1, 40:, 3].isfinite().all()
    assert_right(out, q, k, v, causal)


# Query and key lengths.
CHUNKS = [(17, 5000), (64, 8192), (100, 3000), (128, 4224), (512, 4608), (1000, 1100)]


@pytest.mark.parametrize("heads", [(3, 3), (32, 8), (300, 100)], ids=str)
@pytest.mark.parametrize("head_dim", [64, 72, 96, 128, 256])
@pytest.mark.parametrize("lengths", CHUNKS, ids=str)
def test_chunks_of_a_long_prompt(
    lengths: tuple[int, int], head_dim: int, heads: tuple[int, int], dtype: torch.dtype
) -> None:
    """The next tokens of a prompt, aligned at the bottom right, are right in every family."""
    q = randn(1, heads[0], lengths[0], head_dim, dtype=dtype)
    k, v = randn(2, 1, heads[1], lengths[1], head_dim, dtype=dtype)
    out = attention(q, k, v, **for_ours("bottom_right"), enable_gqa=True)
    assert_right(out, q, k, v, "bottom_right")


@BY_MASK
@HEADS
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_nan_and_inf_propagate(
    where: str, bad: float, heads: int, causal: Causal, dtype: torch.dtype
) -> None:
    """A NaN or an infinity anywhere gives what a float64 softmax gives."""
    q, k, v = qkv(1, heads, 130, 200, 64, dtype)
    {"q": q, "k": k, "v": v}[where][0, :, 99, 7] = bad
    assert_right(attention(q, k, v, **for_ours(causal)), q, k, v, causal)


@BY_MASK
@HEADS
def test_scores_of_minus_infinity(heads: int, causal: Causal, dtype: torch.dtype) -> None:
    """A key at -inf weighs nothing, also when it fills the first tile; a row of them gives NaN."""
    q, k, v = qkv(1, heads, 300, 300, 64, dtype)
    q[..., 0] = 1
    k[0, 0, :130, 0] = -math.inf
    k[0, 1, :, 0] = -math.inf
    out = attention(q, k, v, **for_ours(causal))
    assert out[0, 1].isnan().all()
    assert_right(out, q, k, v, causal)


@BY_MASK
@HEADS
@pytest.mark.parametrize("head_dim", [64, 128])
def test_outliers(head_dim: int, heads: int, causal: Causal, dtype: torch.dtype) -> None:
    """One element in a thousand with a deviation of 10 costs no accuracy."""
    tensors = []
    for x in qkv(1, heads, 515, 515, head_dim, dtype):
        outliers = 10 * torch.randn_like(x) * (torch.rand(x.shape, device="cuda") < 1e-3)
        tensors.append(x + outliers)
    assert_right(attention(*tensors, **for_ours(causal)), *tensors, causal)


@BY_MASK
@HEADS
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize(("first", "last"), [(-1, -1), (0, 12), (12, 0)], ids=str)
def test_scores_that_drift(
    first: float, last: float, head_dim: int, heads: int, causal: Causal, dtype: torch.dtype
) -> None:
    """All scores below zero, and scores that grow or shrink from the first key to the last."""
    q, k, v = qkv(1, heads, 300, 900, head_dim, dtype)
    factors = torch.linspace(first, last, k.shape[2], device="cuda", dtype=dtype)[:, None]
    q, k = q.abs(), k.abs() * factors
    assert_right(attention(q, k, v, **for_ours(causal)), q, k, v, causal)


@BY_MASK
@HEADS
@pytest.mark.parametrize("head_dim", [64, 128])
def test_a_row_does_not_depend_on_the_others(
    head_dim: int, heads: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Rows keep their bits if those beside them have far larger scores, or none above zero."""
    q, k, v = qkv(1, heads, 300, 900, head_dim, dtype)
    out = attention(q, k, v, **for_ours(causal))
    for others in (40.0, 0.0):
        changed = q.clone()
        changed[:, :, 1::2] *= others
        rows = attention(changed, k, v, **for_ours(causal))[:, :, ::2]
        assert_same_bits(rows, out[:, :, ::2])


@HEADS
@pytest.mark.parametrize("head_dim", [64, 128])
def test_huge_scores(head_dim: int, heads: int, dtype: torch.dtype) -> None:
    """Scores of many millions, whose fp32 steps are above 1, still give a mean of the values."""
    q, k, v = qkv(1, heads, 300, 900, head_dim, dtype)
    out = attention(1000 * q, 1000 * k, v)
    assert out.isfinite().all()
    assert out.abs().max() <= 1.01 * v.abs().max()  # weights are rounded, their sum is not


@BY_MASK
@HEADS
@pytest.mark.parametrize("scale", [0.0, 1.0, -0.125, 1e-3, 3])
def test_scale(scale: float, heads: int, causal: Causal, dtype: torch.dtype) -> None:
    """Any scale is right, zero (the mean of the values) and negative ones included."""
    q, k, v = qkv(2, heads, 150, 139, 64, dtype)
    out = attention(q, k, v, **for_ours(causal), scale=scale)
    assert_right(out, q, k, v, causal, scale)


@BY_MASK
def test_empty(causal: Causal, dtype: torch.dtype) -> None:
    """No query, batch or head gives an empty output; no key gives zeros."""
    for batch, heads, q_len in ((2, 3, 0), (0, 3, 5), (2, 0, 5)):
        q, k, v = qkv(batch, heads, q_len, 7, 64, dtype)
        assert attention(q, k, v, **for_ours(causal)).shape == q.shape
    for head_dim in KERNEL_DIMS:
        q, k, v = qkv(2, 3, 150, 0, head_dim, dtype)
        assert_same_bits(attention(q, k, v, **for_ours(causal)), torch.zeros_like(q))


@BY_MASK
@HEADS
@pytest.mark.parametrize("head_dim", KERNEL_DIMS)
def test_runs_are_bit_equal(head_dim: int, heads: int, causal: Causal, dtype: torch.dtype) -> None:
    """The same inputs give the same bits every time."""
    q, k, v = qkv(1, heads, 600, 600, head_dim, dtype)
    first = attention(q, k, v, **for_ours(causal))
    for _ in range(5):
        assert_same_bits(attention(q, k, v, **for_ours(causal)), first)


def test_follows_the_current_stream(dtype: torch.dtype) -> None:
    """The kernel runs on torch's current stream, after queued work."""
    q, k, v = qkv(1, 4, 256, 256, 64, dtype)
    expected = attention(q, k, v)
    late = torch.zeros_like(q)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(20_000_000)
        late.copy_(q)
        out = attention(late, k, v)
    torch.cuda.synchronize()
    assert_same_bits(out, expected)


def test_replays_in_a_graph(dtype: torch.dtype) -> None:
    """A call can be captured, and its replay computes on what the inputs hold then."""
    q, k, v = qkv(1, 4, 256, 256, 64, dtype)
    attention(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(q, k, v)
    for x in (q, k, v):
        x.normal_()
    graph.replay()
    assert_same_bits(out, attention(q, k, v))


def test_fp32_is_refused() -> None:
    """fp32 has no CUDA kernel: an error that names the dtypes there are."""
    q, k, v = qkv(1, 1, 8, 8, 64, torch.float32)
    with pytest.raises(TypeError, match="|".join(torch_attention._C.cuda_dtypes())):
        attention(q, k, v)


def test_plain_tensors_go_the_short_way_on_the_current_stream(dtype: torch.dtype) -> None:
    """A plain tensor is computed in one call from Python, queued on the stream that is current."""
    q, k, v = (torch.randn(1, 2, 64, 64, device="cuda", dtype=dtype) for _ in range(3))
    expected = torch_attention._checked_attention(q, k, v, None, False, None, False)
    late = torch.zeros_like(q)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(50_000_000)
        late.copy_(q)  # on any other stream the zeros would be read
        out = torch_attention._plain_attention(late, k, v, False, False, None, False)
    torch.cuda.synchronize()
    assert out is not None
    assert torch.equal(out, expected)
