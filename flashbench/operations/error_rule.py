"""The rule that decides whether a result is correct.

It is FlashAttention's (Dao-AILab/flash-attention, tests/test_flash_attn.py): a kernel may be twice
as far from the truth as the baseline in the same dtype, plus the error of rounding the output
twice.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# The error of rounding finite values, which are float64, once to a dtype.
Rounding = Callable[[Tensor, torch.dtype], float]
# What sums in another order may differ by, in roundings: float32 sums are rounded as the output is.
_ROUNDINGS = {torch.float32: 4}


@dataclass(frozen=True)
class Accuracy:
    """An output's error and its bound (absolute, in output units)."""

    max_error: float
    bound: float
    reason: str = ""

    @property
    def correct(self) -> bool:
        return not self.reason


def of_largest(expected: Tensor, dtype: torch.dtype) -> float:
    """The error of rounding the largest value."""
    largest = _max_abs(expected)
    return _ROUNDINGS.get(dtype, 1) * largest * torch.finfo(dtype).eps / 2


def error_bound(
    expected: Tensor, baseline_error: float, dtype: torch.dtype, rounding: Rounding
) -> float:
    """2 * max|baseline - ref| + 2 * rounding(ref), the second term in `dtype`."""
    finite = torch.isfinite(expected)
    values = expected if finite.all() else expected[finite]
    return 2 * baseline_error + (2 * rounding(values, dtype) if values.numel() else 0.0)


def check(
    out: Tensor, expected: Tensor, baseline: Tensor, rounding: Rounding = of_largest
) -> Accuracy:
    """Decide whether `out` is correct.

    expected: the float64 reference; baseline: its result in the dtype of `out`; equal shapes.
    NaN and Inf must be where the reference has them (an overflow to Inf in a narrow dtype where the
    reference is finite is allowed only where the baseline overflows too).
    """
    if out.shape != expected.shape:
        return Accuracy(
            math.inf, 0.0, f"shape {tuple(out.shape)}, expected {tuple(expected.shape)}"
        )
    if out.dtype != baseline.dtype:
        return Accuracy(math.inf, 0.0, f"dtype {out.dtype}, expected {baseline.dtype}")
    if out.numel() == 0:
        return Accuracy(0.0, 0.0)
    target = expected.to(out.dtype)  # what a perfect kernel would store
    finite, of_target = torch.isfinite(out), torch.isfinite(target)
    overflow = torch.isinf(baseline) & of_target
    special = ~of_target | overflow
    wrong = torch.where(special, ~overflow & ~_same(out, target), ~finite)
    finite &= ~special
    error = _largest_difference(out, expected, finite)
    off = _largest_difference(baseline, expected, finite & torch.isfinite(baseline))
    bound = error_bound(expected, off, out.dtype, rounding)
    if wrong.any():
        where = tuple(int(i) for i in wrong.nonzero()[0])
        return Accuracy(
            math.inf,
            bound,
            f"{int(wrong.sum())} of {out.numel()} elements are NaN or Inf where the reference is "
            f"not, or the reverse; first at {where}: {out[where].item()}, "
            f"expected {expected[where].item()}",
        )
    if error > bound:
        return Accuracy(error, bound, f"max error {error:.3g} exceeds the bound {bound:.3g}")
    return Accuracy(error, bound)


def _largest_difference(a: Tensor, expected: Tensor, where: Tensor) -> float:
    return _max_abs((a.double() - expected).masked_fill_(~where, 0.0))


def _same(a: Tensor, b: Tensor) -> Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def _max_abs(x: Tensor) -> float:
    return float(x.abs().max().item()) if x.numel() else 0.0
