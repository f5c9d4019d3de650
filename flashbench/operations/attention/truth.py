"""Attention in float64, and the rule that decides whether a result is correct."""

import math

import torch
from torch import Tensor

from flashbench.operations import error_rule

# Hold this many scores at a time (float64: 256 MiB).
_MAX_SCORES = 1 << 25


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    is_causal: bool = False,
    bottom_right: bool = False,
    scale: float | None = None,
    rows: Tensor | None = None,
) -> Tensor:
    """Softmax attention in float64; grouped-query heads are recognised from the shapes.

    q: (batch, heads, q_len, head_dim); k, v: (batch, kv_heads, k_len, head_dim); rows: indices of
    the queries to compute, by default all. Returns float64 of q's shape, or of those rows. The
    causal mask is aligned at the top left, like SDPA's, or at the bottom right, like torch's
    causal_lower_right; a row that sees no key is zeros.
    """
    batch, heads, q_len, head_dim = q.shape
    kv_heads, k_len = k.shape[1], k.shape[2]
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    places = torch.arange(q_len, device=q.device) if rows is None else rows.to(q.device)
    q = q if rows is None else q[:, :, places]
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    if out.numel() == 0 or k_len == 0:
        return out
    at_once = max(1, _MAX_SCORES // (heads * k_len))
    column = torch.arange(k_len, device=q.device)
    offset = k_len - q_len if bottom_right else 0
    for b in range(batch):
        keys = k[b].double().repeat_interleave(heads // kv_heads, dim=0)
        values = v[b].double().repeat_interleave(heads // kv_heads, dim=0)
        for start in range(0, len(places), at_once):
            part = slice(start, start + at_once)
            block = q[b, :, part].double()
            scores = block @ keys.transpose(-1, -2) * scale
            if is_causal:
                hidden = column > places[part, None] + offset
                # A masked key contributes nothing, even if its value is NaN or Inf.
                scores = scores.masked_fill(hidden, -math.inf)
                weights = torch.softmax(scores, dim=-1)
                weights = weights.masked_fill(hidden.all(dim=1)[:, None], 0)
                out[b, :, part] = _masked_product(weights, values, hidden)
            else:
                out[b, :, part] = torch.softmax(scores, dim=-1) @ values
    return out


def _masked_product(weights: Tensor, values: Tensor, hidden: Tensor) -> Tensor:
    """weights @ values with masked pairs treated as absent: 0 * NaN must not spread."""
    special = ~torch.isfinite(values).all(dim=2)
    product = weights @ values.masked_fill(special[..., None], 0)
    for head, j in special.nonzero().tolist():
        part = weights[head, :, j, None] * values[head, j]
        product[head] += part.masked_fill(hidden[:, j, None], 0)
    return product


def rounding(expected: Tensor, dtype: torch.dtype) -> float:
    """max|(ref + 0.3 - 0.3) - ref| in `dtype`: FlashAttention's measure of rounding the output
    (Dao-AILab/flash-attention, tests/test_flash_attn.py), but never less than half a unit in the
    last place of the largest result. The measure sees only results of about 1: at 16 in bf16 adding
    and subtracting 0.3 gives the same number again."""
    rounded = expected.to(dtype)
    measured = float((rounded + 0.3 - 0.3 - rounded).abs().max().item())
    largest = float(expected.abs().max().item())
    unit = math.ldexp(torch.finfo(dtype).eps, math.frexp(largest)[1] - 1) if largest else 0.0
    return max(measured, unit / 2)


def check(out: Tensor, expected: Tensor, sdpa: Tensor) -> error_rule.Accuracy:
    """`error_rule.check` of attention."""
    return error_rule.check(out, expected, sdpa, rounding)
