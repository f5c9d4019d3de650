"""The float64 reference, and the rule that decides whether a result is right."""

import math
from typing import Any

import pytest
import torch
from masks import IDS, MASKS, for_reference, for_sdpa
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from flashbench.operations.attention import truth as reference
from flashbench.operations.attention.operation import Causal
from flashbench.operations.attention.truth_backward import attention_backward


def _inputs(*shape: int, kv_heads: int | None = None, k_len: int | None = None, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    batch, heads, q_len, head_dim = shape
    kv = (batch, kv_heads or heads, k_len or q_len, head_dim)
    return [torch.randn(s, generator=generator) for s in ((batch, heads, q_len, head_dim), kv, kv)]


@pytest.mark.parametrize("causal", MASKS, ids=IDS)
@pytest.mark.parametrize("lengths", [(1, 1), (7, 33), (33, 7)])
def test_reference_is_softmax_attention(causal: Causal, lengths: tuple[int, int]) -> None:
    """The blockwise reference equals torch's float64 math attention, grouped heads too."""
    q, k, v = _inputs(2, 6, lengths[0], 32, kv_heads=2, k_len=lengths[1])
    expected = scaled_dot_product_attention(
        q.double(), k.double(), v.double(), **for_sdpa(causal, q, k), enable_gqa=True
    )
    found = reference.attention(q, k, v, **for_reference(causal))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


class _Reference(torch.autograd.Function):
    """The reference of the output, with the reference of the gradients as its backward."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scoring: dict[str, Any]) -> Tensor:
        ctx.scoring = scoring
        ctx.save_for_backward(q, k, v)
        return reference.attention(q, k, v, **scoring)

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        return *attention_backward(*ctx.saved_tensors, dout, **ctx.scoring), None


@pytest.mark.parametrize("causal", MASKS, ids=IDS)
@pytest.mark.parametrize("scale", [None, -0.3, 0.0])
@pytest.mark.parametrize("lengths", [(1, 5), (3, 4), (4, 3)])
def test_reference_gradients_are_derivatives(
    causal: Causal, scale: float | None, lengths: tuple[int, int]
) -> None:
    """torch's gradcheck in float64 agrees with the reference that gradients are judged by."""
    inputs = _inputs(1, 2, lengths[0], 5, kv_heads=1, k_len=lengths[1])
    scoring = for_reference(causal) | {"scale": scale}
    qkv = [x.double().requires_grad_() for x in inputs]
    assert torch.autograd.gradcheck(lambda *qkv: _Reference.apply(*qkv, scoring), qkv)


def test_blocks_of_rows_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is the same when scores are held a few rows at a time, or only some are wanted."""
    q, k, v = _inputs(1, 2, 37, 32)
    k, v = k[:, :, :30], v[:, :, :30]
    masks = [for_reference(causal) for causal in (True, "bottom_right")]
    whole = [reference.attention(q, k, v, **mask) for mask in masks]
    monkeypatch.setattr(reference, "_MAX_SCORES", 5 * 2 * 37)
    for mask, expected in zip(masks, whole, strict=True):
        torch.testing.assert_close(reference.attention(q, k, v, **mask), expected)
        rows = torch.tensor([0, 3, 9, 20, 21, 30, 36])
        some = reference.attention(q, k, v, **mask, rows=rows)
        torch.testing.assert_close(some, expected[:, :, rows])


def test_masked_nan_does_not_spread() -> None:
    """A NaN in a key or value that the causal mask hides reaches no row before it."""
    q, k, v = _inputs(1, 1, 8, 32)
    k[0, 0, 5], v[0, 0, 6] = math.nan, math.nan
    out = reference.attention(q, k, v, is_causal=True)
    assert torch.isfinite(out[0, 0, :5]).all()
    assert out[0, 0, 5:].isnan().all()


def test_no_keys_give_zeros() -> None:
    """Attention over no key is zero, as SDPA's."""
    q = torch.randn(1, 2, 3, 32)
    empty = torch.empty(1, 2, 0, 32)
    assert reference.attention(q, empty, empty).eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sdpa_passes_and_small_damage_does_not(dtype: torch.dtype) -> None:
    """SDPA's own output is right; one element off by a percent, or one NaN, is not."""
    q, k, v = (x.to(dtype) for x in _inputs(1, 4, 64, 64))
    expected = reference.attention(q, k, v)
    sdpa = scaled_dot_product_attention(q, k, v)
    assert reference.check(sdpa, expected, sdpa).correct
    damaged = sdpa.clone()
    damaged.view(-1)[17] += 0.01 * (1 + 4 * (dtype == torch.bfloat16))
    found = reference.check(damaged, expected, sdpa)
    assert not found.correct
    assert "exceeds the bound" in found.reason
    damaged.view(-1)[17] = math.nan
    assert "NaN" in reference.check(damaged, expected, sdpa).reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1.3, 17.0, 150.0, 3000.0])
def test_the_bound_grows_with_the_results(size: float, dtype: torch.dtype) -> None:
    """Beside a baseline without an error, the other neighbour of a result passes, but none that is
    three units away: also where 0.3 is less than a unit, as from 16 on in bf16."""
    unit = torch.finfo(dtype).eps * 2.0 ** math.floor(math.log2(size))
    baseline = torch.full((1, 1, 4, 32), size).to(dtype)
    expected = baseline.double()
    neighbour = (expected + unit).to(dtype)
    assert reference.check(neighbour, expected, baseline).correct
    away = (expected + 3 * unit).to(dtype)
    assert not reference.check(away, expected, baseline).correct


def test_shape_and_dtype_have_to_agree() -> None:
    """An output of another shape or dtype is wrong, and the reason says which."""
    q, k, v = _inputs(1, 1, 4, 32)
    expected, sdpa = reference.attention(q, k, v), scaled_dot_product_attention(q, k, v)
    assert "shape" in reference.check(sdpa[:, :, :3], expected, sdpa).reason
    assert "dtype" in reference.check(sdpa.half(), expected, sdpa).reason


def test_infinite_results_have_to_be_infinite() -> None:
    """Where the reference is infinite, a finite output is wrong."""
    q, k, v = _inputs(1, 1, 4, 32)
    v[0, 0, 2, 3] = math.inf
    expected, sdpa = reference.attention(q, k, v), scaled_dot_product_attention(q, k, v)
    assert reference.check(sdpa, expected, sdpa).correct
    assert not reference.check(sdpa.nan_to_num(posinf=1.0), expected, sdpa).correct
