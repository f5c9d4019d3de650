"""The extension's attention as a function of torch tensors, with SDPA's semantics.

`flashbench._C` is not compiled against torch. It reads plain tensors itself, through torch's DLPack
exchange API (`csrc/tensor_call.h`): checks, output and launch in one call. This module checks
everything else, to explain what is wrong, and passes it on as pointers, shapes and strides that
`flashbench.tensor_memory` has checked against the storage. It never falls back to SDPA: what it
does not support is an error.
"""

import math
from numbers import Real
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from flashbench.extension import load
from flashbench.masks import alignment
from flashbench.tensor_memory import (
    address_and_strides,
    not_dense,
    plain,
    require_apart,
    require_new,
)

if TYPE_CHECKING:
    from flashbench.masks import CausalMask

MIN_HEAD_DIM, MAX_HEAD_DIM, HEAD_DIM_STEP = 32, 256, 8

# The order is that of `enum class Dtype` in csrc/attention.h.
_DTYPE_CODES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
_DTYPE_NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}

_LARGEST_SCALE = torch.finfo(torch.float32).max

_C = load()
_CPU_DTYPES = frozenset(_C.cpu_dtypes())
_CUDA_DTYPES = frozenset(_C.cuda_dtypes())
_C.bind_torch(
    Tensor,
    torch.UntypedStorage,
    torch.empty_like,
    torch.contiguous_format,
    torch.get_num_threads,
    MIN_HEAD_DIM,
    MAX_HEAD_DIM,
    HEAD_DIM_STEP,
)
_plain_attention = _C.plain_attention
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_trace_of_jit = torch._C._get_tracing_state


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    attn_mask: "CausalMask | None" = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(scale * q k^T) v, as `torch.nn.functional.scaled_dot_product_attention` defines it.

    q: (batch, heads, q_len, head_dim); k, v: (batch, kv_heads, k_len, head_dim), any strides; or
    all three without the batch dimension. One dtype (float32 on the CPU; float16, bfloat16) and
    one device. Returns a new tensor of q's shape and dtype.

    is_causal: hide key j from query i where j > i (aligned at the top left, as in SDPA).
    attn_mask: a causal mask of torch.nn.attention.bias: `causal_lower_right(q_len, k_len)`, or
        `CausalVariant.LOWER_RIGHT` alone, hides j > i + k_len - q_len (aligned at the bottom
        right); a row that sees no key is zeros. No other mask is supported.
    scale: 1 / sqrt(head_dim) unless given.
    enable_gqa: let heads be a multiple of kv_heads; query head h reads kv head
        h // (heads / kv_heads).

    Forward only. Raises TypeError or ValueError naming the argument that is not supported.
    """
    if (
        forward_ad._current_level >= 0
        or _dispatch_modes() > 0
        or _function_modes() > 0
        or _trace_of_jit() is not None
    ):
        return _watched_attention(q, k, v, attn_mask, is_causal, scale, enable_gqa)
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


def _watched_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: "CausalMask | None",
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Attention where a torch mode may change what torch's functions return."""
    _refuse_what_cannot_be_followed(q, k, v)
    # As in SDPA, modes see no torch function inside; dispatch modes see the output created.
    with torch._C.DisableTorchFunction():
        return _checked_attention(q, k, v, attn_mask, is_causal, scale, enable_gqa)


def _refuse_what_cannot_be_followed(q: Tensor, k: Tensor, v: Tensor) -> None:
    """A tangent would be lost, and a trace would contain an output that nothing computes."""
    if get_proxy_mode() is not None or _trace_of_jit() is not None:
        raise ValueError("flashbench.attention cannot be traced (make_fx, torch.jit.trace)")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if isinstance(x, Tensor) and forward_ad.unpack_dual(x).tangent is not None:
            raise ValueError(
                f"{name} has a tangent and flashbench.attention is forward only; "
                "pass forward_ad.unpack_dual(...).primal"
            )


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
        batched = (x.unsqueeze(0) for x in (q, k, v))
        out = attention(
            *batched, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return out.squeeze(0)
    _validate_options(is_causal, scale, enable_gqa)
    _validate(q, k, v, enable_gqa)
    causal, bottom_right = alignment(attn_mask, is_causal, q, k)
    batch, heads, q_len, head_dim = q.shape
    made = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    out = plain("the output", made)
    require_new("the output", out, tuple(q.shape), q.dtype, q.device)
    named = (("q", q), ("k", k), ("v", v), ("the output", out))
    addresses, strides = zip(*(address_and_strides(name, x) for name, x in named), strict=True)
    require_apart(out, q, k, v)
    problem = (
        *addresses,
        0,
        (batch, heads, k.shape[1], q_len, k.shape[2], head_dim),
        *strides,
        1 / math.sqrt(head_dim) if scale is None else float(scale),
        causal,
        k.shape[2] - q_len if bottom_right else 0,
        _DTYPE_CODES[q.dtype],
    )
    if q.is_cuda:
        # The raw handle: building a torch.cuda.Stream object costs more than the whole launch.
        stream = torch._C._cuda_getCurrentRawStream(q.device.index)
        if torch._C._cuda_getDevice() == q.device.index:
            _C.cuda_attention(*problem, stream)
        else:
            with torch.cuda.device(q.device):
                _C.cuda_attention(*problem, stream)
    else:
        _C.cpu_attention(*problem, torch.get_num_threads())
    return made


def _validate_options(is_causal: object, scale: float | None, enable_gqa: object) -> None:
    for name, flag in (("is_causal", is_causal), ("enable_gqa", enable_gqa)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, got {type(flag).__name__}")
    if scale is None:
        return
    if not isinstance(scale, Real) or isinstance(scale, bool):
        raise TypeError(f"scale must be a number or None, got {type(scale).__name__}")
    # NaN and infinity pass through, as in SDPA; a number that only becomes infinite does not.
    if _LARGEST_SCALE < abs(scale) < math.inf:
        raise ValueError("scale is too large for float32")


def _validate(q: Tensor, k: Tensor, v: Tensor, enable_gqa: bool) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise ValueError(
                f"{name} must have 4 dimensions (batch, heads, length, head_dim) or, all three, "
                f"3 without batch; got shape {tuple(x.shape)}"
            )
        if x.dtype != q.dtype or x.dtype not in _DTYPE_CODES:
            raise TypeError(
                f"{name} has dtype {x.dtype}; q, k and v must share one of "
                "torch.float32, torch.float16, torch.bfloat16"
            )
        if x.device != q.device:
            raise ValueError(f"{name} is on {x.device}, q on {q.device}; move them to one device")
        if x.requires_grad and torch.is_grad_enabled():
            raise ValueError(
                f"{name} requires grad and flashbench.attention is forward only; "
                "call it under torch.no_grad() or detach the tensor"
            )
        if x.layout != torch.strided or x.is_nested:
            raise ValueError(not_dense(name))
        if x.is_conj() or x.is_neg():
            raise ValueError(f"{name} is a lazily negated view; call .resolve_neg() first")
    _validate_device(q)
    batch, heads, _, head_dim = q.shape
    if not MIN_HEAD_DIM <= head_dim <= MAX_HEAD_DIM or head_dim % HEAD_DIM_STEP:
        raise ValueError(
            f"q has head_dim {head_dim}; supported are {MIN_HEAD_DIM} to {MAX_HEAD_DIM} "
            f"in steps of {HEAD_DIM_STEP}"
        )
    for name, x in (("k", k), ("v", v)):
        if x.shape[0] != batch:
            raise ValueError(f"{name} has batch {x.shape[0]}, q has {batch}; they must be equal")
        if x.shape[3] != head_dim:
            raise ValueError(f"{name} has head_dim {x.shape[3]}, q has {head_dim}")
    if v.shape[1:3] != k.shape[1:3]:
        raise ValueError(
            f"v has (heads, length) {tuple(v.shape[1:3])}, k has {tuple(k.shape[1:3])}; "
            "they must be equal"
        )
    kv_heads = k.shape[1]
    if heads != kv_heads and not enable_gqa:
        raise ValueError(
            f"k has {kv_heads} heads, q has {heads}; pass enable_gqa=True for grouped-query heads"
        )
    if heads != kv_heads and (kv_heads == 0 or heads % kv_heads):
        raise ValueError(f"k has {kv_heads} heads, which does not divide q's {heads}")


def _validate_device(q: Tensor) -> None:
    name = _DTYPE_NAMES[q.dtype]
    if q.device.type == "cpu":
        built = _CPU_DTYPES
    elif q.device.type == "cuda":
        built = _CUDA_DTYPES
        if not built:
            raise ValueError(
                "q is on a CUDA device, but this build of flashbench has no CUDA kernels; "
                "put nvcc on PATH and build again"
            )
    else:
        raise ValueError(f"q is on {q.device}; supported devices are cpu and cuda")
    if name not in built:
        raise TypeError(
            f"q has dtype {q.dtype}, which this build does not support for {q.device.type} (it "
            f"supports {', '.join(sorted(built))}); see `flashbench info`"
        )
