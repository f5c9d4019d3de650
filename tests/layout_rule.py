"""Layouts of q, k and v, and the strides that outputs and gradients have for them.

The rule of SDPA on a GPU: the order of dimensions of the tensor that a result belongs to, without
gaps; contiguous where head vectors are not.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def _projected(x: Tensor) -> Tensor:
    """As a projection gives it: (batch, length, heads, head dim) in memory."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _fused(x: Tensor) -> Tensor:
    """A third of a projection to q, k and v."""
    return _projected(torch.cat([x, x, x], dim=1))[:, x.shape[1] : 2 * x.shape[1]]


def _length_first(x: Tensor) -> Tensor:
    return x.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3)


def _dim_outside(x: Tensor) -> Tensor:
    return x.mT.contiguous().mT


def _every_other_row(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, dim=2)[:, :, ::2]


# Makes a view with x's values, and the dimensions of a result from the outermost in.
LAYOUTS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "contiguous": (Tensor.contiguous, (0, 1, 2, 3)),
    "projected": (_projected, (0, 2, 1, 3)),
    "fused": (_fused, (0, 2, 1, 3)),
    "length first": (_length_first, (2, 0, 1, 3)),
    "every other row": (_every_other_row, (0, 1, 2, 3)),
    "dim outside": (_dim_outside, (0, 1, 2, 3)),
}


def strides_in_order(shape: Sequence[int], outer_first: Sequence[int]) -> tuple[int, ...]:
    """A gapless tensor's strides, its dimensions in this order in memory."""
    strides, step = [0] * len(shape), 1
    for dim in reversed(outer_first):
        strides[dim], step = step, step * shape[dim]
    return tuple(strides)


def require_layout(result: Tensor, layout: str) -> None:
    """Fail unless a result has the strides of the rule for an input of this layout."""
    assert result.stride() == strides_in_order(result.shape, LAYOUTS[layout][1])
