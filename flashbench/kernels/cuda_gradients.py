"""What the backward kernels on CUDA devices leave to torch.

They take at least one query and one key, a positive scale, queries that each see a key, and strides
that the copy engine (TMA) can read.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from flashbench.kernels.scoring import Scoring
from flashbench.kernels.tensor_memory import new_like

_AllGradients = tuple[Tensor, Tensor, Tensor]


def with_positive_scale(q: Tensor, scoring: Scoring) -> tuple[Tensor, Scoring]:
    """The same scores with a positive scale: its sign, or zero, becomes a factor of q."""
    scale = scoring.scale_of(q)
    if scale > 0 or not math.isfinite(scale):
        return q, scoring
    return (-q if scale else q * 0), replace(scoring, scale=abs(scale) or 1.0)


def backward(
    kernels: Callable[..., Any], saved: Sequence[Tensor], dout: Tensor, scoring: Scoring
) -> _AllGradients:
    """The gradients of q, k and v by `kernels(saved, dout, scoring, layouts=...)`, as in
    `kernel_call`."""
    q, k, v, out, lse = saved
    unseeing = max(-scoring.offset_of(q, k), 0) if scoring.causal else 0
    if q.numel() == 0 or k.numel() == 0 or unseeing >= q.shape[2]:
        return new_like(q).zero_(), new_like(k).zero_(), new_like(v).zero_()
    if unseeing:
        seeing = slice(unseeing, None)
        dq = new_like(q).zero_()
        seen = (q[:, :, seeing], k, v, out[:, :, seeing], lse[:, :, seeing].contiguous())
        dq[:, :, seeing], dk, dv = backward(kernels, seen, dout[:, :, seeing], scoring)
        return dq, dk, dv
    positive, positive_scoring = with_positive_scale(q, scoring)
    inputs = (_readable(x) for x in (positive, k, v))
    saved = (*inputs, out, lse)
    dq, dk, dv = kernels(saved, _readable(dout), positive_scoring, layouts=(q, k, v))
    if positive is not q:
        # Times zero, which keeps a NaN but not what overflowed at the scale of one.
        dq = dq.neg_() if scoring.scale_of(q) else dq.nan_to_num_(math.nan, 0.0, 0.0).mul_(0)
    return dq, dk, dv


def _readable(x: Tensor) -> Tensor:
    """x, or a copy of what TMA cannot read.

    It takes contiguous head vectors, and addresses and strides that are multiples of 16 bytes.
    """
    if x.is_contiguous() and x.data_ptr() % 16 == 0:  # head vectors have multiples of 8 elements
        return x
    chunk = 16 // x.element_size()
    strides_fit = all(
        size == 1 or (stride > 0 and stride % chunk == 0)
        for size, stride in zip(x.shape[:3], x.stride()[:3], strict=True)
    )
    fits = x.stride(3) == 1 and strides_fit and x.data_ptr() % 16 == 0
    return x if fits else x.clone(memory_format=torch.contiguous_format)
