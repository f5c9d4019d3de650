"""Attention in float64, and the rule that decides whether a result is correct.

The rule is FlashAttention's (Dao-AILab/flash-attention, tests/test_flash_attn.py): a kernel may be
twice as far from the truth as SDPA in the same dtype, plus the error of rounding the output twice.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

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
) -> Tensor:
    """Softmax attention in float64; grouped-query heads are recognised from the shapes.

    q: (batch, heads, q_len, head_dim); k, v: (batch, kv_heads, k_len, head_dim).
    Returns float64 of q's shape. The causal mask is aligned at the top left, like SDPA's, or at
    the bottom right, like torch's causal_lower_right; a row that sees no key is zeros.
    """
    batch, heads, q_len, head_dim = q.shape
    kv_heads, k_len = k.shape[1], k.shape[2]
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    out = torch.zeros(q.shape, dtype=torch.float64, device=q.device)
    if out.numel() == 0 or k_len == 0:
        return out
    rows = max(1, min(q_len, _MAX_SCORES // (heads * k_len)))
    column = torch.arange(k_len, device=q.device)
    offset = k_len - q_len if bottom_right else 0
    for b in range(batch):
        keys = k[b].double().repeat_interleave(heads // kv_heads, dim=0)
        values = v[b].double().repeat_interleave(heads // kv_heads, dim=0)
        for start in range(0, q_len, rows):
            block = q[b, :, start : start + rows].double()
            scores = block @ keys.transpose(-1, -2) * scale
            if is_causal:
                row = torch.arange(start, start + block.shape[1], device=q.device)
                hidden = column > row[:, None] + offset
                # A masked key contributes nothing, even if its value is NaN or Inf.
                scores = scores.masked_fill(hidden, -math.inf)
                weights = torch.softmax(scores, dim=-1)
                weights = weights.masked_fill(hidden.all(dim=1)[:, None], 0)
                out[b, :, start : start + rows] = _masked_product(weights, values, hidden)
            else:
                out[b, :, start : start + rows] = torch.softmax(scores, dim=-1) @ values
    return out


def _masked_product(weights: Tensor, values: Tensor, hidden: Tensor) -> Tensor:
    """weights @ values with masked pairs treated as absent: 0 * NaN must not spread."""
    if bool(torch.isfinite(values).all()):
        return weights @ values
    rows = []
    for i, seen in enumerate((~hidden).sum(dim=1).tolist()):
        rows.append(weights[:, i : i + 1, :seen] @ values[:, :seen])
    return torch.cat(rows, dim=1)


@dataclass(frozen=True)
class Accuracy:
    """An output's error and its bound (absolute, in output units)."""

    max_error: float
    bound: float
    reason: str = ""

    @property
    def correct(self) -> bool:
        return not self.reason


def error_bound(expected: Tensor, sdpa_error: float, dtype: torch.dtype) -> float:
    """2 * max|sdpa - ref| + 2 * max|(ref + 0.3 - 0.3) - ref|, the second term in `dtype`."""
    finite = expected[torch.isfinite(expected)]
    if finite.numel() == 0:
        return 2 * sdpa_error
    rounded = finite.to(dtype)
    rounding = (rounded + 0.3 - 0.3 - rounded).abs().max().item()
    return 2 * sdpa_error + 2 * rounding


def check(out: Tensor, expected: Tensor, sdpa: Tensor) -> Accuracy:
    """Decide whether `out` is correct.

    expected: the float64 reference; sdpa: PyTorch's result in the dtype of `out`; equal shapes.
    NaN and Inf must be where the reference has them (an overflow to Inf in a narrow dtype where the
    reference is finite is allowed only where SDPA overflows too).
    """
    if out.shape != expected.shape:
        return Accuracy(
            math.inf, 0.0, f"shape {tuple(out.shape)}, expected {tuple(expected.shape)}"
        )
    if out.dtype != sdpa.dtype:
        return Accuracy(math.inf, 0.0, f"dtype {out.dtype}, expected {sdpa.dtype}")
    if out.numel() == 0:
        return Accuracy(0.0, 0.0)
    target = expected.to(out.dtype).double()  # what a perfect kernel would store
    overflow = torch.isinf(sdpa) & torch.isfinite(target)
    special = ~torch.isfinite(target) | overflow
    wrong_special = special & ~overflow & ~_same(out.double(), target)
    spurious = ~special & ~torch.isfinite(out)
    bad = int((wrong_special | spurious).sum())
    finite = ~special & torch.isfinite(out)
    error = _max_abs(out.double()[finite] - expected[finite])
    both = finite & torch.isfinite(sdpa)
    bound = error_bound(expected, _max_abs(sdpa.double()[both] - expected[both]), out.dtype)
    if bad:
        where = tuple(int(i) for i in (wrong_special | spurious).nonzero()[0])
        return Accuracy(
            math.inf,
            bound,
            f"{bad} of {out.numel()} elements are NaN or Inf where the reference is not, or the "
            f"reverse; first at {where}: {out[where].item()}, expected {expected[where].item()}",
        )
    if error > bound:
        return Accuracy(error, bound, f"max error {error:.3g} exceeds the bound {bound:.3g}")
    return Accuracy(error, bound)


def _same(a: Tensor, b: Tensor) -> Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def _max_abs(x: Tensor) -> float:
    return float(x.abs().max().item()) if x.numel() else 0.0
