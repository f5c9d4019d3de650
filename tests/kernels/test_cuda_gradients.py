"""What is computed around the GPU's kernels for gradients, with torch in their place."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flashbench.kernels import cuda_gradients
from flashbench.kernels.scoring import Scoring


def kernels(
    saved: Sequence[Tensor], dout: Tensor, scoring: Scoring, layouts: Sequence[Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of attention without a mask, at the positive scale that kernels take."""
    assert scoring.scale is not None
    assert scoring.scale > 0
    q, k, v = (x.detach().requires_grad_() for x in saved[:3])
    out = torch.softmax(q @ k.mT * scoring.scale, dim=-1) @ v
    dq, dk, dv = torch.autograd.grad(out, (q, k, v), dout)
    return dq, dk, dv


def gradients(q: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    k, v, dout = (torch.randn(q.shape, generator=generator) for _ in range(3))
    saved: Any = q, k, v, v, q[..., 0]
    return cuda_gradients.backward(kernels, saved, dout, Scoring(False, False, scale))


def test_a_scale_of_zero_keeps_a_nan() -> None:
    """In a row of q it makes that row of dq, and all of dk and dv, NaN."""
    q = torch.randn((1, 1, 4, 32), generator=torch.Generator().manual_seed(0))
    dq, dk, dv = gradients(q, 0.0)
    assert not dq.any()
    assert not dk.any()
    assert dv.isfinite().all()
    q[0, 0, 2, 5] = math.nan
    dq, dk, dv = gradients(q, 0.0)
    assert dq.isnan().any(dim=-1).flatten().tolist() == [False, False, True, False]
    assert dk.isnan().any(dim=-1).all()
    assert dv.isnan().any(dim=-1).all()


def test_what_overflows_at_the_scale_of_the_kernels_is_zero() -> None:
    """A scale of zero computes at one, where dq may be infinite."""

    def infinite(saved: Sequence[Tensor], *_: Any, **__: Any) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = saved[:3]
        return torch.full_like(q, -math.inf), torch.zeros_like(k), v

    q = torch.ones((1, 1, 4, 32))
    saved = q, q, q, q, q[..., 0]
    dq, _, _ = cuda_gradients.backward(infinite, saved, q, Scoring(False, False, 0.0))
    assert not dq.any()


def test_a_negative_scale_is_a_sign_of_q() -> None:
    """Its gradients are those of the scale itself."""
    q = torch.randn((1, 1, 4, 32), generator=torch.Generator().manual_seed(0))
    positive, negative = gradients(-q, 0.3), gradients(q, -0.3)
    torch.testing.assert_close(negative[0], -positive[0])
    torch.testing.assert_close(negative[1:], positive[1:])
