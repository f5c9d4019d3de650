"""Attention and its gradients as operators, of torch.compile's graphs and counts of operations.

Imported when the first is needed, not before: operators are registered for the whole process,
which two revisions that share one must not do (`flashbench.revisions.traces`).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import (
    register_flop_formula,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

from flashbench.kernels import kernel_call
from flashbench.kernels.gradients import NO_SECOND_DERIVATIVE, backward
from flashbench.kernels.scoring import Scoring
from flashbench.kernels.supported import require_tensors
from flashbench.kernels.tensor_memory import new_like


@torch.library.custom_op("flashbench::attention", mutates_args=())
def operator(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    enable_gqa: bool,
    with_lse: bool,
    causal: bool,
    bottom_right: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor]:
    """The output, and the log-sum-exp of each row (without elements unless asked for).

    torch keeps compiled graphs on disk, by operators' names and arguments: a
    change of what an operator returns needs another of either, or graphs from before it fail.
    """
    require_tensors(q, k, v, enable_gqa)
    out, lse = kernel_call.forward(q, k, v, Scoring(causal, bottom_right, scale), with_lse=with_lse)
    return out, q.new_empty(0, dtype=torch.float32) if lse is None else lse


@operator.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, enable_gqa: bool, with_lse: bool, *_: Any
) -> tuple[Tensor, Tensor]:
    require_tensors(q, k, v, enable_gqa)
    shape = q.shape[:3] if with_lse else (0,)
    return new_like(q), q.new_empty(shape, dtype=torch.float32)


@register_flop_formula(torch.ops.flashbench.attention)
def _(q: torch.Size, k: torch.Size, v: torch.Size, *_: Any, **__: Any) -> int:
    """The floating-point operations that torch counts for SDPA: a causal mask takes none away."""
    counted: int = sdpa_flop_count(q, *_repeated(q, k, v))
    return counted


@torch.library.custom_op("flashbench::attention_backward", mutates_args=())
def backward_operator(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    dout: Tensor,
    causal: bool,
    bottom_right: bool,
    scale: float | None,
    wanted: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v (without elements those that are not wanted)."""
    scoring = causal, bottom_right, scale
    found = backward((q, k, v, out, lse), dout, scoring, tuple(wanted))
    dq, dk, dv = (q.new_empty(0) if x is None else x for x in found)
    return dq, dk, dv


@backward_operator.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    *_, wanted = rest
    each = zip((q, k, v), wanted, strict=True)
    dq, dk, dv = (new_like(x) if want else x.new_empty(0) for x, want in each)
    return dq, dk, dv


@register_flop_formula(torch.ops.flashbench.attention_backward)
def _(q: torch.Size, k: torch.Size, v: torch.Size, *out_lse_dout: Any, **__: Any) -> int:
    counted: int = sdpa_backward_flop_count(out_lse_dout[2], q, *_repeated(q, k, v))
    return counted


def _repeated(q: torch.Size, *shapes: torch.Size) -> Sequence[tuple[int, ...]]:
    """The shapes with a head for each of q's: torch 2.10 counts no grouped heads."""
    return [(x[0], q[1], *x[2:]) for x in shapes]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, ctx.enable_gqa, ctx.with_lse, *ctx.scoring = inputs
    ctx.save_for_backward(q, k, v, *output)


def _operator_backward(ctx: Any, dout: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    q, k, v, *kept = ctx.saved_tensors
    if not ctx.with_lse:  # traced where no gradient was wanted, as torch.export does under no_grad
        kept = operator(q, k, v, ctx.enable_gqa, True, *ctx.scoring)
    wanted = ctx.needs_input_grad[:3]
    found = backward_operator(q, k, v, *kept, dout, *ctx.scoring, wanted)
    gradients = (x if want else None for x, want in zip(found, wanted, strict=True))
    return (*gradients, *[None] * 5)


def _refuse(ctx: Any, *_: Tensor) -> None:
    raise RuntimeError(NO_SECOND_DERIVATIVE)


operator.register_autograd(_operator_backward, setup_context=_keep)
backward_operator.register_autograd(_refuse)
