"""The extension's attention as a function of torch tensors, with SDPA's semantics.

`flashbench._C` is not compiled against torch. It reads plain tensors itself, through torch's DLPack
exchange API (`csrc/tensor_call.h`): checks, output and launch in one call. This module checks
everything else, to explain what is wrong (`supported`), and passes it on as pointers, shapes and
strides (`kernel_call`), with gradients where they are wanted (`gradients`). It never falls back to
SDPA: what it does not support is an error.
"""

import sys
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from flashbench.kernels import gradients, kernel_call
from flashbench.kernels.kernel_call import C as _C
from flashbench.kernels.masks import alignment
from flashbench.kernels.scoring import Scoring
from flashbench.kernels.supported import (
    HEAD_DIM_STEP,
    MAX_HEAD_DIM,
    MIN_HEAD_DIM,
    NO_DROPOUT,
    require_options,
    require_tensors,
)
from flashbench.kernels.tensor_memory import plain

if TYPE_CHECKING:
    from flashbench.kernels.masks import CausalMask

PARTS_OF_TORCH = {
    "Tensor": Tensor,
    "UntypedStorage": torch.UntypedStorage,
    "empty_like": torch.empty_like,
    "contiguous_format": torch.contiguous_format,
    "float32": torch.float32,
    "get_num_threads": torch.get_num_threads,
    "is_grad_enabled": torch.is_grad_enabled,
    "is_inference_mode_enabled": torch.is_inference_mode_enabled,
    "are_deterministic_algorithms_enabled": torch._C._get_deterministic_algorithms,
    "are_transforms_active": torch._C._are_functorch_transforms_active,
    "record": gradients.record,
    "min_head_dim": MIN_HEAD_DIM,
    "max_head_dim": MAX_HEAD_DIM,
    "head_dim_step": HEAD_DIM_STEP,
}
_C.bind_torch(**PARTS_OF_TORCH)
_plain_attention = _C.plain_attention
_dispatch_modes = torch._C._len_torch_dispatch_stack
_has_function_mode = torch._C._is_torch_function_mode_enabled
_trace_of_jit = torch._C._get_tracing_state
_is_compiling = torch.compiler.is_dynamo_compiling
_autocasts_anywhere = torch._C._is_any_autocast_enabled


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: "CausalMask | None" = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(scale * q k^T) v, as `torch.nn.functional.scaled_dot_product_attention` defines it,
    with its arguments in its order.

    q: (batch, heads, q_len, head_dim); k, v: (batch, kv_heads, k_len, head_dim), any strides; or
    all three without the batch dimension. One dtype (float32 on the CPU; float16, bfloat16) and
    one device. Returns a new tensor of q's shape and dtype.

    is_causal: hide key j from query i where j > i (aligned at the top left, as in SDPA).
    attn_mask: a causal mask of torch.nn.attention.bias: `causal_lower_right(q_len, k_len)`, or
        `CausalVariant.LOWER_RIGHT` alone, hides j > i + k_len - q_len (aligned at the bottom
        right); a row that sees no key is zeros. No other mask is supported.
    dropout_p: must be 0.
    scale: 1 / sqrt(head_dim) unless given.
    enable_gqa: let heads be a multiple of kv_heads; query head h reads kv head
        h // (heads / kv_heads).

    Differentiable once with respect to q, k and v. With `torch.use_deterministic_algorithms` the
    gradients have the same bits in every run; on a CPU they always have. Under `torch.autocast` q,
    k and v are cast as SDPA casts them.
    Raises TypeError or ValueError naming the argument that is not supported.
    """
    if dropout_p != 0.0:
        raise ValueError(NO_DROPOUT.format(dropout_p))
    if _is_compiling():
        return _as_operator(q, k, v, attn_mask, is_causal, scale, enable_gqa)
    if (
        forward_ad._current_level >= 0
        or _dispatch_modes() > 0
        or _has_function_mode()
        or _trace_of_jit() is not None
    ):
        # A torch mode may change what torch's functions return.
        _refuse_what_cannot_be_followed(q, k, v)
        if get_proxy_mode() is not None or isinstance(q, FakeTensor) or _counts_operators():
            return _as_operator(q, k, v, attn_mask, is_causal, scale, enable_gqa)
        # As in SDPA, modes see no torch function inside; dispatch modes see the output created.
        with torch._C.DisableTorchFunction():
            if forward_ad._current_level < 0 and not _dispatch_modes():
                return attention(
                    q, k, v, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
                )
            return _checked_attention(q, k, v, attn_mask, is_causal, scale, enable_gqa)
    if _autocasts_anywhere():
        if not type(q) is type(k) is type(v) is Tensor:
            return _checked_attention(q, k, v, attn_mask, is_causal, scale, enable_gqa)
        q, k, v = _autocast(q, k, v)
    if attn_mask is None:
        out: Tensor | None = _plain_attention(q, k, v, is_causal, False, scale, enable_gqa)
    elif isinstance(q, Tensor) and isinstance(k, Tensor):
        mask = alignment(attn_mask, is_causal, q, k)
        out = _plain_attention(q, k, v, *mask, scale, enable_gqa)
    else:
        out = None
    if out is None:
        return _checked_attention(q, k, v, attn_mask, is_causal, scale, enable_gqa)
    return out


NO_TRANSFORMS_IN_GRAPHS = (
    "flashbench.attention in a graph (torch.compile, make_fx) or under FlopCounterMode takes no "
    "transforms of torch.func; call torch.func.grad outside, or use torch.autograd.grad"
)
NO_TANGENTS_IN_GRAPHS = (
    "flashbench.attention in a graph takes no tangents, and has no forward derivative; leave "
    "forward_ad.dual_level() before it"
)


def _autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """What SDPA computes with under torch.autocast: float64 stays as it is."""

    def is_cast(x: Tensor) -> bool:
        floats = x.is_floating_point() and x.dtype != torch.float64
        kind = x.device.type  # Others are refused; torch 2.11 cannot ask in a graph which autocast.
        return floats and kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind)

    return tuple(
        x.to(torch.get_autocast_dtype(x.device.type)) if is_cast(x) else x for x in tensors
    )


def _refuse_what_cannot_be_followed(q: Tensor, k: Tensor, v: Tensor) -> None:
    """A tangent would be lost, and jit's trace would contain an output that nothing computes."""
    _refuse_tangents_in_graphs()
    if _trace_of_jit() is not None:
        raise ValueError(
            "flashbench.attention cannot be traced by torch.jit.trace; use torch.export"
        )
    for name, x in (("q", q), ("k", k), ("v", v)):
        if isinstance(x, Tensor) and forward_ad.unpack_dual(x).tangent is not None:
            raise ValueError(
                f"{name} has a tangent and flashbench.attention has no forward derivative; "
                "pass forward_ad.unpack_dual(...).primal"
            )


def _refuse_tangents_in_graphs() -> None:
    """A graph's tensors do not show theirs. Outside of whole graphs the error sends torch.compile
    back to where tangents are seen."""
    if _is_compiling() and forward_ad._current_level >= 0:
        raise ValueError(NO_TANGENTS_IN_GRAPHS)


def _counts_operators() -> bool:
    """Whether torch's FlopCounterMode is on. Newer torch counts in a class behind it."""
    counter = sys.modules.get("torch.utils.flop_counter")
    names = ("FlopCounterMode", "_FlopCounterMode")
    kinds = tuple(getattr(counter, name) for name in names if hasattr(counter, name))
    return any(isinstance(one, kinds) for one in _get_current_dispatch_mode_stack())


def _as_operator(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: "CausalMask | None",
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Attention as one operator, of a graph (torch.compile, torch.export, make_fx), of fake tensors
    or of a count."""
    from flashbench.kernels import torch_operators

    # torch would drop tangents without a word, and has no other rule for an operator.
    if torch._C._are_functorch_transforms_active():
        raise ValueError(NO_TRANSFORMS_IN_GRAPHS)
    _refuse_tangents_in_graphs()
    if q.dim() == 3 and k.dim() == 3 and v.dim() == 3:
        q, k, v = (x.unsqueeze(0) for x in (q, k, v))
        return _as_operator(q, k, v, attn_mask, is_causal, scale, enable_gqa).squeeze(0)
    require_options(is_causal, scale, enable_gqa)
    q, k, v = _autocast(q, k, v)
    mask = alignment(attn_mask, is_causal, q, k)
    scale = None if scale is None else float(scale)
    with_lse = gradients.are_wanted(q, k, v)
    out: Tensor = torch_operators.operator(q, k, v, enable_gqa, with_lse, *mask, scale)[0]
    return out


def _checked_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: "CausalMask | None",
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """`attention` for everything that `plain_attention` in csrc/tensor_call.h does not handle."""
    q, k, v = plain("q", q), plain("k", k), plain("v", v)
    if q.dim() == 3 and k.dim() == 3 and v.dim() == 3:
        q, k, v = (x.unsqueeze(0) for x in (q, k, v))
        return attention(
            q, k, v, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
        ).squeeze(0)
    require_options(is_causal, scale, enable_gqa)
    if _autocasts_anywhere():
        q, k, v = _autocast(q, k, v)
    require_tensors(q, k, v, enable_gqa)
    scoring = Scoring(*alignment(attn_mask, is_causal, q, k), scale)
    if gradients.are_wanted(q, k, v) and not torch.is_inference_mode_enabled():
        return gradients.attention(q, k, v, scoring)
    return kernel_call.forward(q, k, v, scoring)[0]
