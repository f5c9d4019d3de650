"""Quantising to e4m3, and the error of the algorithm, without a GPU."""

import math
from collections.abc import Callable

import pytest
import torch
from e4m3_rule import KINDS, assert_within_twice, dequantize, emulate, error_ratios, inputs
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from flashbench.kernels import fp8

SUBNORMAL_STEP = 2.0**-9


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


def quantize(q_len: int = 130, k_len: int = 300, head_dim: int = 64) -> fp8.Quantized:
    """Inputs with 4 query heads and 2 kv heads."""
    return fp8.quantize_e4m3(*inputs("normal", (4, 2), (q_len, k_len), head_dim))


@settings(max_examples=20)
@given(
    st.integers(1, 300),
    st.integers(1, 300),
    st.sampled_from([32, 40, 64, 72, 96, 128]),
    st.sampled_from([1e-6, 1.0, 1e4]),
)
def test_dequantised_is_near(q_len: int, k_len: int, head_dim: int, size: float) -> None:
    """Every element is off by half a unit in the last of its 4 bits at most, or of a subnormal."""
    tensors = [x.float() * size for x in inputs("outliers", (2, 1), (q_len, k_len), head_dim)]
    q, k, v = (x.to(torch.bfloat16) for x in tensors)
    quantized = fp8.quantize_e4m3(q, k, v)
    scales = (quantized.q_scale, quantized.k_scale, quantized.v_scale)
    for x, back, scale in zip((q, k, v), dequantize(quantized), scales, strict=True):
        steps = scale.repeat_interleave(fp8.BLOCK, dim=2)[:, :, : x.shape[2], None]
        allowed = torch.maximum(x.float().abs() / 16, steps * SUBNORMAL_STEP / 2)
        assert ((back - x.float()).abs() <= allowed * 1.0001).all()


def test_scale_of_a_block_is_its_largest_over_448() -> None:
    """Each 128 rows of each head have a scale of their own, the last rows too."""
    q, k, v = inputs("normal", (4, 2), (130, 300), 64)
    quantized = fp8.quantize_e4m3(q, k, v)
    assert quantized.q_scale.shape == (1, 4, 2)
    assert quantized.k_scale.shape == quantized.v_scale.shape == (1, 2, 3)
    for block in range(3):
        rows = v[0, 1, block * 128 : (block + 1) * 128].float()
        assert quantized.v_scale[0, 1, block] == rows.abs().max() / 448


def test_layouts() -> None:
    """q and k as they were, dims padded; v transposed in the order of key_order and dim_order."""
    quantized = quantize(head_dim=40)
    assert quantized.q.shape == (1, 4, 130, 64)
    assert quantized.k.shape == (1, 2, 300, 64)
    assert quantized.v.shape == (1, 2, 64, 384)
    assert all(x.is_contiguous() for x in (quantized.q, quantized.k, quantized.v))
    assert (quantized.q[..., 40:].float() == 0).all()
    v = dequantize(quantized)[2] / quantized.v_scale.repeat_interleave(128, 2)[:, :, :300, None]
    for place, dim in ((2, 8), (9, 3), (33, 33)):
        for column, key in ((1, 1), (2, 8), (20, 18)):
            assert quantized.v[0, 1, place, column].float() == v[0, 1, key, dim].round(decimals=3)


def test_orders_are_permutations() -> None:
    """Each key of 16 and each dim of 32 has one place."""
    assert sorted(fp8.key_order().tolist()) == list(range(16))
    assert sorted(fp8.dim_order().tolist()) == list(range(32))


def test_strides_play_no_part() -> None:
    """Transposed inputs give the bits of contiguous ones."""
    q, k, v = inputs("normal", (4, 2), (130, 300), 64)
    strided = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    left, right = fp8.quantize_e4m3(q, k, v), fp8.quantize_e4m3(*strided)
    for name in ("q", "k", "v"):
        x, y = (getattr(one, name).view(torch.uint8) for one in (left, right))
        assert torch.equal(x, y)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nonfinite_becomes_nan_alone(value: float) -> None:
    """NaN and infinity become NaN and leave the scale and the rest of the block as they were."""
    q, k, v = inputs("normal", (2, 2), (130, 300), 64)
    expected = dequantize(fp8.quantize_e4m3(q, k, v))
    for i, x in enumerate((q, k, v)):
        x[0, 1, 129, 5] = value
        expected[i][0, 1, 129, 5] = math.nan
    found = dequantize(fp8.quantize_e4m3(q, k, v))
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True)
        assert int(x.isnan().sum()) == 1


@pytest.mark.parametrize("size", [0.0, 1e-38, 1e38])
def test_extreme_blocks_stay_finite(size: float) -> None:
    """Zeros and the smallest and largest bfloat16 values stay finite."""
    q, k, v = (
        (x.float().clamp(-1, 1) * size).to(torch.bfloat16)
        for x in inputs("normal", (1, 1), (5, 7), 64)
    )
    for x, back in zip((q, k, v), dequantize(fp8.quantize_e4m3(q, k, v)), strict=True):
        assert back.isfinite().all()
        assert (back.abs() <= 1.07 * x.float().abs().max()).all()


def test_blocks_of_zeros_keep_a_factor_above_zero() -> None:
    """Scales of zeros multiply to a number that masked scores (-inf) can be multiplied by."""
    q, k, v = (torch.zeros(1, 1, length, 64, dtype=torch.bfloat16) for length in (5, 7, 7))
    quantized = fp8.quantize_e4m3(q, k, v)
    assert (quantized.q_scale * 0.1 * quantized.k_scale > 0).all()


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("length", [64, 128, 512, 2048])
def test_algorithm_is_within_twice(length: int, head_dim: int, kind: str, causal: bool) -> None:
    """Rounding probabilities to e4m3 at most doubles the error of quantising the inputs."""
    heads = (2, 1) if length < 2048 else (1, 1)
    q, k, v = inputs(kind, heads, (length, length), head_dim)
    out = emulate(fp8.quantize_e4m3(q, k, v), causal)
    assert_within_twice(out, q, k, v, causal)


@pytest.mark.parametrize("kind", KINDS)
def test_algorithm_is_within_twice_over_16k_keys(kind: str) -> None:
    """The same for the longest keys, of few queries."""
    q, k, v = inputs(kind, (1, 1), (64, 16384), 64)
    assert_within_twice(emulate(fp8.quantize_e4m3(q, k, v)), q, k, v, False)


def test_rule_sees_probabilities_out_of_range() -> None:
    """Probabilities as small as a finished softmax's vanish in e4m3, and the rule says so."""
    q, k, v = inputs("normal", (1, 1), (64, 16384), 64)
    ratios = error_ratios(emulate(fp8.quantize_e4m3(q, k, v), largest=0.002), q, k, v, False)
    assert max(ratios) > 2


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda q, k, v: fp8.quantize_e4m3(q.float(), k, v),
            TypeError,
            "q has dtype torch.float32",
        ),
        (lambda q, k, v: fp8.quantize_e4m3(q, k[:, :, :, :32], v), ValueError, "head_dim 32"),
        (
            lambda q, k, v: fp8.quantize_e4m3(*(x.repeat(1, 1, 1, 3) for x in (q, k, v))),
            ValueError,
            "32 to 128 in steps of 8",
        ),
        (
            lambda q, k, v: fp8.attention_e4m3(fp8.quantize_e4m3(q, k, v)),
            ValueError,
            "needs a Hopper GPU",
        ),
        (
            lambda q, k, v: fp8.attention_e4m3(fp8.quantize_e4m3(q, k, v), scale=-1),
            ValueError,
            "positive and finite",
        ),
    ],
)
def test_says_what_it_does_not_take(
    call: Callable[[Tensor, Tensor, Tensor], object], error: type[Exception], said: str
) -> None:
    """Other dtypes, head dims, devices and scales are refused in one line."""
    with pytest.raises(error, match=said):
        call(*inputs("normal", (2, 2), (5, 7), 64))


@pytest.mark.parametrize("shape", [(0, 2, 40, 64), (2, 0, 40, 64), (1, 2, 0, 64)])
def test_nothing_is_quantised_to_nothing(shape: tuple[int, ...]) -> None:
    """Empty batches, heads and lengths are no error, and come back empty."""
    q, k, v = (torch.randn(shape).to(torch.bfloat16) for _ in range(3))
    for x in dequantize(fp8.quantize_e4m3(q, k, v)):
        assert x.shape == shape


@pytest.mark.parametrize(
    ("arguments", "error", "what"),
    [
        ((None, {}), TypeError, "quantized must be"),
        ((True, {"is_causal": 3}), TypeError, "is_causal must be"),
        ((True, {"scale": "a"}), TypeError, "scale must be a number"),
        ((True, {"scale": 1e-50}), ValueError, "positive and finite"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: tuple[object, dict[str, object]], error: type[Exception], what: str
) -> None:
    """What attention_e4m3 does not take it names, before it looks for a GPU."""
    quantized, options = arguments
    q = torch.randn(1, 1, 16, 64).to(torch.bfloat16)
    given = fp8.quantize_e4m3(q, q, q) if quantized else quantized
    with pytest.raises(error, match=what):
        fp8.attention_e4m3(given, **options)  # type: ignore[arg-type]
