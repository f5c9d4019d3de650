"""Attention that torch can differentiate, in eager mode; `torch_operators` is for compiled graphs.

Both keep q, k, v, the output and each row's log-sum-exp, and compute the gradients by the
extension's backward. Neither has a second derivative.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from flashbench.kernels import kernel_call
from flashbench.kernels.kernel_call import Gradients
from flashbench.kernels.scoring import Scoring
from flashbench.kernels.tensor_memory import plain

NO_SECOND_DERIVATIVE = (
    "flashbench.attention has no second derivative; differentiate once, without create_graph, or "
    "use torch's scaled_dot_product_attention with the MATH backend"
)

NO_BATCHES = (
    "flashbench.attention takes no batched tensors (vmap, and what calls it: torch.func.jacrev, "
    "is_grads_batched); call it once for each, or use torch's scaled_dot_product_attention"
)

NO_FORWARD_DERIVATIVE = (
    "flashbench.attention has no forward derivative (jvp, and what calls it: torch.func.jacfwd and "
    "hessian); use torch's scaled_dot_product_attention with the MATH backend"
)


def are_wanted(*tensors: Tensor) -> bool:
    """Whether torch records gradients, and any of the tensors requires one."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def attention(q: Tensor, k: Tensor, v: Tensor, scoring: Scoring) -> Tensor:
    """Attention of checked tensors, recorded for the backward."""
    if torch._C._are_functorch_transforms_active():
        return _Transformed.apply(q, k, v, scoring)[0]  # type: ignore[no-untyped-call,no-any-return]
    return _Attention.apply(q, k, v, scoring)  # type: ignore[no-untyped-call,no-any-return]


def backward(
    tensors: Sequence[Tensor], dout: Tensor, scoring: Scoring, wanted: Sequence[bool]
) -> Gradients:
    """The gradients of q, k and v; tensors: q, k, v, the output and its log-sum-exp."""
    dout = plain("the output's gradient", dout).resolve_neg()
    return kernel_call.backward(tensors, dout, scoring, wanted)


def _refuse_batches(*_: Any) -> None:
    raise ValueError(NO_BATCHES)


def _refuse_tangents(ctx: Any, *grad_inputs: Any) -> Any:
    raise ValueError(NO_FORWARD_DERIVATIVE)


class _Attention(torch.autograd.Function):
    """Attention; keeps the log-sum-exp of each row for the backward.

    Defines no setup_context: with one, torch binds a signature's arguments in every call, a quarter
    of a tiny one.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scoring: Scoring) -> Tensor:
        out, lse = kernel_call.forward(q, k, v, scoring, with_lse=True)
        assert lse is not None
        ctx.scoring = scoring
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if dout is None:  # nothing that is differentiated uses the output
            return None, None, None, None
        wanted = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # create_graph: differentiating again has to be refused
            inputs = (*ctx.saved_tensors, dout, ctx.scoring, wanted)
            gradients = _Backward.apply(*inputs)  # type: ignore[no-untyped-call]
        else:
            gradients = backward(ctx.saved_tensors, dout, ctx.scoring, wanted)
        return (*gradients, None)


class _Transformed(torch.autograd.Function):
    """The same for torch.func's transforms, which need setup_context."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, scoring: Scoring) -> tuple[Tensor, Tensor]:
        out, lse = kernel_call.forward(q, k, v, scoring, with_lse=True)
        assert lse is not None
        return out, lse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        q, k, v, ctx.scoring = inputs
        out, lse = output
        ctx.mark_non_differentiable(lse)
        ctx.set_materialize_grads(False)  # no zeros for lse
        ctx.save_for_backward(q, k, v, out, lse)

    backward = _Attention.backward
    vmap = staticmethod(_refuse_batches)
    jvp = staticmethod(_refuse_tangents)


class _Backward(torch.autograd.Function):
    """The gradients, where torch records how they were computed."""

    @staticmethod
    def forward(*inputs: Any) -> Gradients:
        *tensors, dout, scoring, wanted = inputs
        return backward(tensors, dout, scoring, wanted)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Gradients) -> None:
        pass

    @staticmethod
    def backward(ctx: FunctionCtx, *_: Tensor) -> None:
        raise RuntimeError(NO_SECOND_DERIVATIVE)

    vmap = staticmethod(_refuse_batches)
    jvp = staticmethod(_refuse_tangents)
