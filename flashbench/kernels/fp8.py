"""Attention on fp8 (e4m3) tensors with a scale for each block of rows: a quantiser and one kernel.

It is a different computation from `flashbench.attention`, with its own error: up to twice what
quantising q, k and v alone would cause (measured in docs/lab/cuda-kernels.md). It is never selected
automatically.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flashbench.kernels import gradients
from flashbench.kernels.kernel_call import C as _C
from flashbench.kernels.kernel_call import new_output
from flashbench.kernels.masks import alignment
from flashbench.kernels.supported import HEAD_DIM_STEP, require_options, require_tensors
from flashbench.kernels.tensor_memory import memory_of, plain

if TYPE_CHECKING:
    from flashbench.kernels.masks import CausalMask

# Rows of a head that share one scale: a tile of the kernel (csrc/cuda/sm90/fp8_tile.h).
BLOCK = 128
# The kernel has these head dims; others are padded with zeros.
WIDTHS = (64, 128)
E4M3 = torch.float8_e4m3fn
LARGEST = torch.finfo(E4M3).max  # 448

_OUT_CODES = {torch.float16: 1, torch.bfloat16: 2}


@dataclass(frozen=True)
class Quantized:
    """q, k and v in e4m3, made by `quantize_e4m3` for `attention_e4m3`.

    q, k: (batch, heads, length, width), width being head_dim padded to 64 or 128.
    v: (batch, kv_heads, width, k_len padded to blocks), laid out for the tensor cores: keys are
        contiguous, in the order of `key_order` inside each 16, dims in that of `dim_order` inside
        each 32.
    q_scale, k_scale, v_scale: float32 (batch, heads, blocks): an element of block b of a head is
        its e4m3 value times the scale there.
    dtype: of the original tensors, and of the output.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    q_scale: Tensor
    k_scale: Tensor
    v_scale: Tensor
    head_dim: int
    dtype: torch.dtype


def key_order(device: torch.device | str = "cpu") -> Tensor:
    """Which key of each 16 is at each position of v.

    A lane's part of Q K^T, keys 2c, 2c + 1, 8 + 2c and 9 + 2c (c is the lane modulo 4), is then its
    part of the operand of P V. The order of keys does not change their sum.
    """
    return torch.arange(16, device=device).view(2, 4, 2).transpose(0, 1).reshape(16)


def dim_order(device: torch.device | str = "cpu") -> Tensor:
    """Which dim of each 32 is at each position of v: a lane's outputs are then 8 neighbours."""
    return torch.arange(32, device=device).view(4, 4, 2).transpose(0, 1).reshape(32)


def quantize_e4m3(q: Tensor, k: Tensor, v: Tensor) -> Quantized:
    """Divide each block of 128 rows of each head by its largest element / 448, and round.

    q: (batch, heads, q_len, head_dim); k, v: (batch, kv_heads, k_len, head_dim) of float16 or
    bfloat16, any strides, kv_heads dividing heads, head_dim a multiple of 8 from 32 to 128.
    NaN and infinite elements do not affect the scale and become NaN: e4m3 has no infinity.
    Raises TypeError or ValueError naming the argument that is not supported.
    """
    q, k, v = plain("q", q), plain("k", k), plain("v", v)
    _validate(q, k, v)
    head_dim = q.shape[3]
    width = next(width for width in WIDTHS if head_dim <= width)
    (q8, q_scale), (k8, k_scale), (v8, v_scale) = (_quantize_rows(x, width) for x in (q, k, v))
    return Quantized(
        q8[:, :, : q.shape[2]].contiguous(),
        k8[:, :, : k.shape[2]].contiguous(),
        _for_tensor_cores(v8),
        q_scale,
        k_scale,
        v_scale,
        head_dim,
        q.dtype,
    )


def attention_e4m3(
    quantized: Quantized,
    *,
    attn_mask: "CausalMask | None" = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(scale * q k^T) v of quantised tensors on a Hopper GPU, in one GPU operation.

    Scores, softmax and sums are fp32; probabilities are rounded to e4m3 relative to the largest of
    their row so far. Returns a new tensor (batch, heads, q_len, head_dim) of `quantized.dtype`.

    is_causal, attn_mask: as in `flashbench.attention`. scale: 1 / sqrt(head_dim) unless given; it
    must be positive and finite.

    A NaN in q makes its row NaN; one in k, every row that sees the key; one in v, its dim of every
    row that sees the key and, if causal, of earlier rows in the same 128. Raises ValueError if the
    device or the build has no such kernel, TypeError for other types.
    """
    if not isinstance(quantized, Quantized):
        raise TypeError(
            f"quantized must be what quantize_e4m3 returns, got {type(quantized).__name__}"
        )
    require_options(is_causal, scale, enable_gqa=True)
    head_dim = quantized.head_dim
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    if not torch.finfo(torch.float32).tiny <= scale < math.inf:
        raise ValueError(
            f"scale must be positive and finite in float32 for e4m3, got {float(scale)}"
        )
    tensors = _as_quantized(quantized)
    q, k = tensors[:2]
    causal, bottom_right = alignment(attn_mask, is_causal, q, k)
    if not q.is_cuda:
        raise ValueError(f"q is on {q.device}; attention_e4m3 needs a Hopper GPU (cuda)")
    if not _C.has_cuda_e4m3():
        raise ValueError(
            "this build of flashbench has no e4m3 kernels; build it with nvcc, and with 90a in "
            "FLASHBENCH_CUDA_ARCHS"
        )
    batch, heads, q_len, width = q.shape
    shape = (batch, heads, q_len, head_dim)
    with torch._C.DisableTorchFunction():
        inputs = [memory_of("an input", x) for x in tensors]
        make = partial(torch.empty, shape, dtype=quantized.dtype)
        made, memory = new_output("the output", make, q.device, inputs)
    if k.shape[2] == 0:
        return made.zero_()
    with torch.cuda.device(q.device):
        _C.cuda_attention_e4m3(
            *map(Tensor.data_ptr, tensors),
            memory[0],
            (batch, heads, k.shape[1], q_len, k.shape[2], width, head_dim),
            float(scale),
            causal,
            k.shape[2] - q_len if bottom_right else 0,
            _OUT_CODES[quantized.dtype],
            torch._C._cuda_getCurrentRawStream(q.device.index),
        )
    return made


def _as_quantized(quantized: Quantized) -> tuple[Tensor, ...]:
    """Its tensors, plain, after checking that they are as `Quantized` says: the kernel relies on
    it.

    Raises TypeError or ValueError naming the one that is not.
    """
    fields = ("q", "k", "v", "q_scale", "k_scale", "v_scale")
    tensors = tuple(plain(name, getattr(quantized, name)) for name in fields)
    q, k = tensors[:2]
    for name, x in zip(fields[:2], (q, k), strict=True):
        if x.dim() != 4:
            raise ValueError(f"{name} must have 4 dimensions, got shape {tuple(x.shape)}")
    batch, heads, q_len, width = q.shape
    kv_heads, k_len = k.shape[1:3]
    q_blocks, k_blocks = (-(-length // BLOCK) for length in (q_len, k_len))
    shapes = (
        (batch, heads, q_len, width),
        (batch, kv_heads, k_len, width),
        (batch, kv_heads, width, k_blocks * BLOCK),
        (batch, heads, q_blocks),
        (batch, kv_heads, k_blocks),
        (batch, kv_heads, k_blocks),
    )
    for name, x, shape in zip(fields, tensors, shapes, strict=True):
        dtype = torch.float32 if name.endswith("_scale") else E4M3
        if x.dtype != dtype:
            raise TypeError(f"{name} has dtype {x.dtype}; quantize_e4m3 makes {dtype}")
        if tuple(x.shape) != shape or not Tensor.is_contiguous(x) or x.device != q.device:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)} and strides {Tensor.stride(x)} on {x.device}; "
                f"quantize_e4m3 makes contiguous {shape} on {q.device}"
            )
        memory_of(name, x)
    if width not in WIDTHS or quantized.head_dim not in range(HEAD_DIM_STEP, width + 1):
        raise ValueError(f"head_dim {quantized.head_dim} does not fit a width of {width}")
    if quantized.dtype not in _OUT_CODES:
        raise TypeError(f"dtype is {quantized.dtype}; e4m3 is made of float16 and bfloat16")
    return tensors


def _validate(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype not in _OUT_CODES:
            raise TypeError(f"{name} has dtype {x.dtype}; e4m3 is made of float16 and bfloat16")
        if gradients.are_wanted(x):
            raise ValueError(
                f"{name} requires grad and attention of fp8 has no gradients; call it under "
                "torch.no_grad() or detach the tensor"
            )
    require_tensors(q, k, v, enable_gqa=True)
    for name, x in (("q", q), ("k", k), ("v", v)):
        memory_of(name, x)  # torch's own operations would read past a storage that is too small
    if q.shape[3] > WIDTHS[-1]:
        raise ValueError(
            f"q has head_dim {q.shape[3]}; supported for e4m3 are 32 to {WIDTHS[-1]} in steps of "
            f"{HEAD_DIM_STEP}"
        )


def _quantize_rows(x: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """x in e4m3, with rows padded to blocks and dims to `width`, and the scale of each block."""
    batch, heads, length, head_dim = x.shape
    blocks = (length + BLOCK - 1) // BLOCK
    padding = (0, width - head_dim, 0, blocks * BLOCK - length)
    wide = torch.nn.functional.pad(x.float(), padding)
    wide = wide.view(batch, heads, blocks, BLOCK * width)
    finite = wide.isfinite()
    largest = wide.where(finite, 0).abs().amax(dim=-1, keepdim=True)
    # Dividing by a subnormal could overflow. A block of zeros gets 1: two tiny scales multiply to
    # zero in the kernel's exponent, where masked scores, which are -inf, would become NaN.
    scale = (largest / LARGEST).clamp(min=torch.finfo(torch.float32).tiny).where(largest > 0, 1.0)
    rounded = (wide / scale).clamp(-LARGEST, LARGEST).where(finite, math.nan).to(E4M3)
    return rounded.view(batch, heads, blocks * BLOCK, width), scale.squeeze(-1)


def _for_tensor_cores(v: Tensor) -> Tensor:
    """(batch, heads, keys, width) as `Quantized.v` describes it."""
    batch, heads, keys, width = v.shape
    # torch can copy bytes everywhere, but not float8.
    transposed = (
        v.view(torch.uint8).transpose(2, 3).reshape(batch, heads, width // 32, 32, keys // 16, 16)
    )
    ordered = transposed[:, :, :, dim_order(v.device)][..., key_order(v.device)]
    return ordered.reshape(batch, heads, width, keys).view(E4M3)
