"""The gradients of the CUDA kernels against float64, by the rule of the forward."""

import math

import pytest
import torch
from backward_truth import Shape, ours, random_inputs, truth_of, with_outliers
from masks import IDS, MASKS
from torch import Tensor

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from flashbench import attention
from flashbench.extension import load
from flashbench.kernels import kernel_call
from flashbench.kernels.scoring import Scoring
from flashbench.operations.attention.operation import Causal

if not load().cuda_dtypes():
    pytest.skip("flashbench._C was built without CUDA kernels", allow_module_level=True)

BY_MASK = pytest.mark.parametrize("causal", MASKS, ids=IDS)
LENGTHS = [
    (1, 1),
    (2, 2),
    (64, 128),
    (239, 1),
    (239, 2),
    (799, 3),
    (113, 203),
    (128, 217),
    (384, 256),
    (640, 128),
    (1023, 1024),
    (1024, 1023),
    (4224, 4224),
]


def judge(inputs: tuple[Tensor, ...], causal: Causal, scale: float | None = None) -> None:
    """Compute and judge."""
    q, k, v, dout = inputs
    found = ours(q, k, v, dout, causal, scale)  # before the truth, which takes longer
    truth_of(q, k, v, dout, causal, scale).judge(found)


def randn(shape: Shape, dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, ...]:
    return random_inputs(shape, dtype, seed, device="cuda")


BY_KERNELS = pytest.mark.usefixtures("kernels")


@BY_KERNELS
@BY_MASK
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("heads", [2, 24], ids=["few", "many"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_lengths(
    lengths: tuple[int, int], heads: int, head_dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Lengths around, below and far from the tile sizes give right gradients."""
    if heads * max(lengths) > 50_000:
        heads = 4
    judge(randn((1, heads, heads, *lengths, head_dim), dtype), causal)


@BY_MASK
@pytest.mark.parametrize("head_dim", [32, 40, 56, 64, 96, 112, 128, 160, 192, 224, 256])
@pytest.mark.parametrize("kv_heads", [6, 2, 1], ids=["mha", "gqa", "mqa"])
@pytest.mark.parametrize(
    "lengths",
    [
        (1, 147),
        (113, 203),
        (128, 217),
        (113, 211),
        (108, 256),
        (256, 512),
        (512, 256),
        (1024, 1024),
        (1023, 1024),
        (1024, 1023),
        (2048, 2048),
    ],
    ids=str,
)
def test_parameters_of_flash_attention(
    lengths: tuple[int, int], kv_heads: int, head_dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """FlashAttention's own test parameters."""
    batch = 1 if max(lengths) >= 1024 else 4
    judge(randn((batch, 6, kv_heads, *lengths, head_dim), dtype), causal)


@BY_KERNELS
@BY_MASK
@pytest.mark.parametrize("head_dim", range(32, 257, 8))
def test_head_dims(head_dim: int, causal: Causal, dtype: torch.dtype, mode: bool) -> None:
    """Every head dim is right, also those that fill no tile."""
    judge(randn((2, 3, 3, 203, 141, head_dim), dtype), causal)


@BY_KERNELS
@BY_MASK
@pytest.mark.parametrize(("heads", "kv_heads"), [(8, 1), (6, 2), (32, 8)])
@pytest.mark.parametrize("head_dim", [64, 128, 160, 192, 256])
def test_grouped_query_heads(
    heads: int, kv_heads: int, head_dim: int, causal: Causal, dtype: torch.dtype, mode: bool
) -> None:
    """dk and dv sum over the query heads of a group."""
    judge(randn((2, heads, kv_heads, 310, 450, head_dim), dtype), causal)


@BY_KERNELS
@BY_MASK
@pytest.mark.parametrize("shape", [(1, 16, 4, 2000, 2000), (1, 8, 1, 1100, 130)])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_blocks_that_share_a_group(
    shape: tuple[int, int, int, int, int],
    head_dim: int,
    causal: Causal,
    dtype: torch.dtype,
    mode: bool,
) -> None:
    """With few heads of keys, blocks share a group's query heads: dk and dv are right, and have the
    same bits again; dq has, too, if deterministic."""
    q, k, v, dout = randn((*shape, head_dim), dtype)
    found = ours(q, k, v, dout, causal)
    again = ours(q, k, v, dout, causal)
    assert all(torch.equal(x, y) for x, y in zip(again[1:], found[1:], strict=True))
    assert not mode or torch.equal(again[0], found[0])
    truth_of(q, k, v, dout, causal, None).judge(found)


@BY_KERNELS
@BY_MASK
@pytest.mark.parametrize("scale", [1e-3, 1.0, -0.2])
def test_scales(scale: float, causal: Causal, dtype: torch.dtype) -> None:
    """The scale is an argument of either sign."""
    judge(randn((1, 4, 4, 300, 250, 64), dtype), causal, scale)


@BY_KERNELS
@BY_MASK
def test_outliers(causal: Causal, dtype: torch.dtype, mode: bool) -> None:
    """Rare elements ten times larger do no harm."""
    inputs = randn((1, 4, 2, 500, 500, 128), dtype)
    judge(tuple(with_outliers(x, seed) for seed, x in enumerate(inputs)), causal)


@BY_KERNELS
@BY_MASK
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("name", "qkvd")
@pytest.mark.parametrize("lengths", [(5, 7), (300, 450), (450, 300)], ids=str)
def test_special_numbers_propagate(
    lengths: tuple[int, int], name: str, head_dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """One NaN or infinity reaches the gradients as in float64, and no others without a mask.

    With one, it also reaches some of pairs that the mask hides, as with SDPA's kernels.
    """
    inputs = randn((1, 3, 3, *lengths, head_dim), dtype)
    for head, special in enumerate((math.nan, math.inf, -math.inf)):
        inputs["qkvd".index(name)][0, head, min(lengths) // 2, 3] = special
    q, k, v, dout = inputs
    found = ours(q, k, v, dout, causal)
    for gradient, right in zip(found, truth_of(q, k, v, dout, causal).expected, strict=True):
        if causal:
            assert not (gradient.isfinite() & ~right.isfinite()).any()
        else:
            assert torch.equal(gradient.isfinite(), right.isfinite())


@BY_KERNELS
@BY_MASK
@pytest.mark.parametrize("head_dim", [64, 256])
@pytest.mark.parametrize("shape", [(2, 4, 2, 0, 9), (2, 4, 2, 9, 0), (0, 4, 2, 9, 9)])
def test_empty_inputs(
    shape: tuple[int, int, int, int, int], head_dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Without queries or keys, what gradients there are, are zeros."""
    q, k, v, dout = randn((*shape, head_dim), dtype)
    for gradient in ours(q, k, v, dout, causal):
        assert gradient.eq(0).all()


@BY_KERNELS
@pytest.mark.parametrize("head_dim", [64, 128, 160, 256])
def test_rows_that_see_no_key(head_dim: int, dtype: torch.dtype, mode: bool) -> None:
    """They have no gradient and no part in those of keys, even if they are NaN."""
    q, k, v, dout = randn((1, 4, 2, 700, 341, head_dim), dtype)
    q[:, :, :359], dout[:, :, 10:350] = math.nan, math.inf
    found = ours(q, k, v, dout, "bottom_right")
    assert found[0][:, :, :359].eq(0).all()
    q[:, :, :359], dout[:, :, :359] = 0, 0
    truth_of(q, k, v, dout, "bottom_right").judge(found)


def _gaps(x: Tensor) -> Tensor:
    """The same numbers at other places: heads and lengths exchanged, gaps between head dims."""
    wide = torch.full((*x.shape[:3], 2 * x.shape[3] + 3), math.nan, dtype=x.dtype, device=x.device)
    wide = wide.transpose(1, 2).contiguous().transpose(1, 2)
    wide[..., 1 : 1 + 2 * x.shape[3] : 2] = x
    return wide[..., 1 : 1 + 2 * x.shape[3] : 2]


def _exchanged(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


@BY_KERNELS
@BY_MASK
@pytest.mark.parametrize("layout", [_exchanged, _gaps])
def test_strides(layout: object, causal: Causal, dtype: torch.dtype) -> None:
    """Tensors in any layout are right, and a gradient of stride zero."""
    inputs = randn((2, 4, 2, 170, 210, 64), dtype)
    judge(tuple(map(layout, inputs)), causal)  # type: ignore[arg-type]
    q, k, v, _ = inputs
    judge((q, k, v, torch.ones(1, dtype=dtype, device="cuda").expand(q.shape)), causal)


@BY_KERNELS
@BY_MASK
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("kv_heads", [2, 8])
def test_deterministic_runs_have_the_same_bits(
    kv_heads: int, head_dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """In the deterministic mode ten runs give the same bits."""
    q, k, v, dout = randn((2, 8, kv_heads, 1500, 1700, head_dim), dtype)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        first = ours(q, k, v, dout, causal)
        for _ in range(9):
            again = ours(q, k, v, dout, causal)
            assert all(torch.equal(x, y) for x, y in zip(again, first, strict=True))
    finally:
        torch.use_deterministic_algorithms(before)


@BY_KERNELS
@BY_MASK
def test_the_values_do_not_depend_on_gradients(causal: Causal, dtype: torch.dtype) -> None:
    """The forward gives right values when it keeps what the backward needs."""
    for shape in ((1, 2, 2, 1, 3000, 64), (2, 8, 2, 300, 300, 128), (1, 16, 16, 2048, 2048, 64)):
        q, k, v, _ = randn(shape, dtype)  # type: ignore[arg-type]
        arguments = {"is_causal": bool(causal), "enable_gqa": True}
        expected = attention(q, k, v, **arguments)  # type: ignore[arg-type]
        found = attention(q.requires_grad_(), k, v, **arguments)  # type: ignore[arg-type]
        # Another kernel may compute it, and round differently.
        eps = torch.finfo(dtype).eps
        torch.testing.assert_close(found, expected, rtol=2 * eps, atol=eps)


@BY_KERNELS
@BY_MASK
@pytest.mark.parametrize("lengths", [(300, 210), (40, 900), (700, 700)], ids=str)
def test_log_sum_exp(lengths: tuple[int, int], causal: Causal, dtype: torch.dtype) -> None:
    """The forward keeps the logarithm of each row's sum, -inf where it sees no key."""
    q, k, v, _ = randn((2, 4, 2, *lengths, 64), dtype)
    scoring = Scoring(bool(causal), causal == "bottom_right", None)
    _, lse = kernel_call.forward(q, k, v, scoring, with_lse=True)
    assert lse is not None
    scores = q.double() @ k.double().repeat_interleave(2, 1).transpose(2, 3) / 8
    if causal:
        position = torch.arange(lengths[0], device="cuda")[:, None] + scoring.offset_of(q, k)
        hidden = torch.arange(lengths[1], device="cuda") > position
        scores = scores.masked_fill(hidden, -math.inf)
    torch.testing.assert_close(lse.double(), scores.logsumexp(3), rtol=1e-5, atol=1e-5)


@BY_KERNELS
def test_a_graph_capture(dtype: torch.dtype) -> None:
    """Forward and backward can be captured and replayed, with the same gradients."""
    q, k, v, dout = randn((2, 4, 4, 400, 400, 64), dtype)
    ours(q, k, v, dout, True)  # loads the kernels
    inputs = [x.requires_grad_() for x in (q, k, v)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attention(*inputs, is_causal=True)
        found = torch.autograd.grad(out, inputs, dout)
    graph.replay()
    torch.cuda.synchronize()
    truth_of(*(x.detach() for x in inputs), dout, True).judge(found)


def test_a_compiled_block(dtype: torch.dtype) -> None:
    """In one graph without a break, forward and backward are right."""
    q, k, v, dout = randn((2, 4, 2, 200, 200, 64), dtype)
    inputs = [x.requires_grad_() for x in (q, k, v)]
    compiled = torch.compile(attention, fullgraph=True)
    out = compiled(*inputs, is_causal=True, enable_gqa=True)
    found = torch.autograd.grad(out, inputs, dout)
    truth_of(*(x.detach() for x in inputs), dout, True).judge(found)


@BY_KERNELS
@pytest.mark.parametrize("seed", range(100))
def test_any_case(seed: int, dtype: torch.dtype) -> None:
    """Random shapes, masks and scales are right."""
    generator = torch.Generator().manual_seed(seed)

    def pick(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (1,), generator=generator))

    kv_heads = pick(1, 3)
    shape = (pick(1, 3), kv_heads * pick(1, 4), kv_heads, pick(8, 900), pick(8, 900))
    causal = MASKS[pick(0, 2)]
    scale = (None, 0.02, 0.2, -0.1)[pick(0, 3)]
    judge(randn((*shape, 8 * pick(4, 32)), dtype, seed), causal, scale)
