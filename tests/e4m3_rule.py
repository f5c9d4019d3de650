"""What the tests of `kernels.fp8` share: inputs, the algorithm in torch, and the rule of right."""

import math

import torch
from masks import for_reference
from torch import Tensor

from flashbench.kernels import fp8
from flashbench.operations.attention import truth as reference
from flashbench.operations.attention.operation import Causal

# normal: N(0, 1). outliers: and N(0, 100) added to one element of 1000. mean: and 1 added to v, so
# that outputs do not average out and errors of the same sign add up; in fp16, because the rounding
# of such outputs to bf16 alone would be more than the error of the quantisation.
KINDS = ("normal", "outliers", "mean")


def inputs(
    kind: str,
    heads: tuple[int, int],
    lengths: tuple[int, int],
    head_dim: int,
    device: str = "cpu",
) -> list[Tensor]:
    """q, k and v of (query, kv) heads and (query, key) lengths."""
    shapes = [(1, heads[i], lengths[i], head_dim) for i in (0, 1, 1)]
    tensors = [torch.randn(shape, device=device) for shape in shapes]
    if kind == "outliers":
        tensors = [x + 10 * torch.randn_like(x) * (torch.rand_like(x) < 0.001) for x in tensors]
    if kind == "mean":
        tensors[2] += 1
    return [x.to(torch.float16 if kind == "mean" else torch.bfloat16) for x in tensors]


def dequantize(quantized: fp8.Quantized) -> tuple[Tensor, Tensor, Tensor]:
    """The q, k and v that the quantised tensors stand for, float32, without padding."""
    k_len, head_dim = quantized.k.shape[2], quantized.head_dim
    batch, kv_heads, width, keys = quantized.v.shape
    inverse_dims, inverse_keys = (
        order(quantized.v.device).argsort() for order in (fp8.dim_order, fp8.key_order)
    )
    v = quantized.v.float().view(batch, kv_heads, width // 32, 32, keys // 16, 16)
    v = v[:, :, :, inverse_dims][..., inverse_keys].reshape(batch, kv_heads, width, keys)
    rows = (quantized.q.float(), quantized.k.float(), v.transpose(2, 3))
    lengths = (quantized.q.shape[2], k_len, k_len)
    scales = (quantized.q_scale, quantized.k_scale, quantized.v_scale)
    q, k, v = (
        x[:, :, :length, :head_dim] * scale.repeat_interleave(fp8.BLOCK, dim=2)[:, :, :length, None]
        for x, length, scale in zip(rows, lengths, scales, strict=True)
    )
    return q, k, v


def emulate(
    quantized: fp8.Quantized, causal: Causal = False, largest: float = fp8.LARGEST
) -> Tensor:
    """What the kernel computes, in torch: `largest` is the probability of a row's largest score."""
    q, k, v = dequantize(quantized)
    group = q.shape[1] // k.shape[1]
    scale_log2 = quantized.head_dim**-0.5 * math.log2(math.e)
    offset = k.shape[2] - q.shape[2] if causal == "bottom_right" else 0
    row = torch.arange(q.shape[2], device=q.device)[:, None] + offset
    out = torch.zeros_like(q)
    total = torch.zeros_like(q[..., :1])
    base = torch.full_like(total, -math.inf)
    for first in reversed(range(0, k.shape[2], fp8.BLOCK)):  # the last keys first, as the kernel
        keys, values = (
            x[:, :, first : first + fp8.BLOCK].repeat_interleave(group, dim=1) for x in (k, v)
        )
        scores = q @ keys.transpose(-1, -2) * scale_log2
        if causal:
            column = torch.arange(first, first + keys.shape[2], device=q.device)
            scores = scores.masked_fill(column > row, -math.inf)
        old = base
        base = torch.maximum(base, scores.amax(dim=-1, keepdim=True) - math.log2(largest))
        # Any finite number does for rows that see none of these keys; the kernel skips them.
        finite = base.masked_fill(base == -math.inf, 0.0)
        rescale = torch.exp2(old - finite)
        probabilities = torch.exp2(scores - finite)
        rounded = probabilities.clamp(max=fp8.LARGEST).to(fp8.E4M3).float()
        out = out * rescale + rounded @ values
        total = total * rescale + probabilities.sum(dim=-1, keepdim=True)
    # Rows that see no key are zeros.
    return torch.where(total == 0, 0, out / total).to(quantized.dtype)


def error_ratios(
    out: Tensor, q: Tensor, k: Tensor, v: Tensor, causal: Causal
) -> tuple[float, float]:
    """Largest and rms error of `out` over those of exact attention of the quantised inputs.

    Both against float64 attention of q, k and v.
    """
    mask = for_reference(causal)
    expected = reference.attention(q, k, v, **mask)
    dequantized = dequantize(fp8.quantize_e4m3(q, k, v))
    unavoidable = reference.attention(*dequantized, **mask) - expected
    error = out.double() - expected
    return (
        (error.abs().max() / unavoidable.abs().max()).item(),
        (error.norm() / unavoidable.norm()).item(),
    )


def assert_within_twice(out: Tensor, q: Tensor, k: Tensor, v: Tensor, causal: Causal) -> None:
    """The rule: no more than twice the error that quantising the inputs causes by itself."""
    largest, rms = error_ratios(out, q, k, v, causal)
    assert largest <= 2, f"largest error: {largest:.3f} times that of the quantised inputs"
    assert rms <= 2, f"rms error: {rms:.3f} times that of the quantised inputs"
