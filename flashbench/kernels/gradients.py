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
from flashbench.kernels.supported import require_tensors
from flashbench.kernels.tensor_memory import plain

FlatScoring = tuple[bool, bool, float | None]  # the fields of Scoring

_plain_gradients = kernel_call.C.plain_gradients
_dispatch_modes = torch._C._len_torch_dispatch_stack
_has_function_mode = torch._C._is_torch_function_mode_enabled

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
    with torch.no_grad():
        out, lse = _forward(q, k, v, scoring)
    kept = out, lse, *_flat(scoring)
    return _Attention.apply(q, k, v, kept)  # type: ignore[no-untyped-call,no-any-return]


def backward(
    tensors: Sequence[Tensor], dout: Tensor, scoring: FlatScoring, wanted: tuple[bool, ...]
) -> Gradients:
    """The gradients of q, k and v; tensors: q, k, v, the output and its log-sum-exp."""
    if _has_function_mode():
        with torch._C.DisableTorchFunction():
            return backward(tensors, dout, scoring, wanted)
    if not _dispatch_modes():
        found: Gradients | None = _plain_gradients(*tensors, dout, wanted, *scoring)
        if found is not None:
            return found
    dout = plain("the output's gradient", dout).resolve_neg()
    _require_kept(tensors, dout)
    return kernel_call.backward(tensors, dout, Scoring(*scoring), wanted[:3])


def _forward(q: Tensor, k: Tensor, v: Tensor, scoring: Scoring) -> tuple[Tensor, Tensor]:
    out, lse = kernel_call.forward(q, k, v, scoring, with_lse=True)
    assert lse is not None
    return out, lse


def _flat(scoring: Scoring) -> FlatScoring:
    scale = None if scoring.scale is None else float(scoring.scale)
    return scoring.causal, scoring.bottom_right, scale


def _require_kept(tensors: Sequence[Tensor], dout: Tensor) -> None:
    """Raise TypeError or ValueError if hooks on saved tensors changed what attention kept, for the
    output of which dout is the gradient."""
    q, k, v, out, lse = tensors
    require_tensors(q, k, v, enable_gqa=True)
    for x, like, dtype in (
        (out, dout, q.dtype),
        (q, dout, q.dtype),
        (lse, q[..., 0], torch.float32),
    ):
        if (x.shape, x.dtype, x.device) != (like.shape, dtype, like.device):
            raise ValueError(
                f"a hook on saved tensors gave back {x.dtype} {tuple(x.shape)} on {x.device}; "
                f"flashbench.attention kept {dtype} {tuple(like.shape)} on {like.device}"
            )
    if not lse.is_contiguous():
        raise ValueError("a hook on saved tensors changed the strides of the log-sum-exp")


def _refuse_batches(*_: Any) -> None:
    raise ValueError(NO_BATCHES)


def _refuse_tangents(ctx: Any, *grad_inputs: Any) -> Any:
    raise ValueError(NO_FORWARD_DERIVATIVE)


class _Attention(torch.autograd.Function):
    """Records attention that is already computed, `kept`: the output, each row's log-sum-exp and
    the scoring.

    A tuple, because torch takes an output that is an argument for a view of it. Defines no
    setup_context: with one, torch binds a signature's arguments in every call.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, kept: tuple[Any, ...]) -> Tensor:
        out: Tensor = kept[0]
        ctx.scoring = kept[2:]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, out, kept[1])
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if dout is None:  # nothing that is differentiated uses the output
            return None, None, None, None
        inputs = ctx.saved_tensors, dout, ctx.scoring, ctx.needs_input_grad
        if torch.is_grad_enabled():  # create_graph: differentiating again has to be refused
            tensors, *rest = inputs
            gradients = _Backward.apply(*tensors, *rest)  # type: ignore[no-untyped-call]
        else:
            gradients = backward(*inputs)
        return (*gradients, None)


# What csrc/tensor_call.h calls: Function.apply, less its Python for signatures of setup_context,
# for keywords and for torch.func.
record = super(torch.autograd.Function, _Attention).apply


class _Transformed(torch.autograd.Function):
    """The same for torch.func's transforms, which need setup_context."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, scoring: Scoring) -> tuple[Tensor, Tensor]:
        return _forward(q, k, v, scoring)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        q, k, v, scoring = inputs
        out, lse = output
        ctx.scoring = _flat(scoring)
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
