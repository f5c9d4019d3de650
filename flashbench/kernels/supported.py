"""What `flashbench.attention` supports, and the errors that name what it does not."""

import math
from numbers import Real

import torch
from torch import Tensor

from flashbench.kernels.kernel_call import C
from flashbench.kernels.scoring import DTYPE_CODES
from flashbench.kernels.tensor_memory import not_dense

MIN_HEAD_DIM, MAX_HEAD_DIM, HEAD_DIM_STEP = 32, 256, 8
NO_DROPOUT = (
    "dropout_p must be 0, got {}; to evaluate pass 0 (dropout_p=p if self.training else 0), to "
    "train with dropout call torch.nn.functional.scaled_dot_product_attention"
)

_DTYPE_NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
_LARGEST_SCALE = torch.finfo(torch.float32).max
_CPU_DTYPES = frozenset(C.cpu_dtypes())
_CUDA_DTYPES = frozenset(C.cuda_dtypes())


def require_options(is_causal: object, scale: float | None, enable_gqa: object) -> None:
    """Raise TypeError or ValueError for an option of another type, or too large a scale."""
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


def require_tensors(q: Tensor, k: Tensor, v: Tensor, enable_gqa: bool) -> None:
    """Raise TypeError or ValueError naming the tensor that is not supported or does not fit."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise ValueError(
                f"{name} must have 4 dimensions (batch, heads, length, head_dim) or, all three, "
                f"3 without batch; got shape {tuple(x.shape)}"
            )
        if x.dtype != q.dtype or x.dtype not in DTYPE_CODES:
            raise TypeError(
                f"{name} has dtype {x.dtype}; q, k and v must share one of "
                "torch.float32, torch.float16, torch.bfloat16"
            )
        if x.device != q.device:
            raise ValueError(f"{name} is on {x.device}, q on {q.device}; move them to one device")
        if x.layout != torch.strided or x.is_nested:
            raise ValueError(not_dense(name))
        if x.is_conj() or x.is_neg():
            raise ValueError(f"{name} is a lazily negated view; call .resolve_neg() first")
    _require_device(q)
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


def _require_device(q: Tensor) -> None:
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
