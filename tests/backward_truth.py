"""Gradients with their truth: the float64 reference and SDPA's gradients in the same dtype."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from masks import for_ours, for_reference, for_sdpa
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from flashbench import attention
from flashbench.operations.attention import truth
from flashbench.operations.attention.operation import Causal
from flashbench.operations.attention.truth_backward import attention_backward

Three = tuple[Tensor, Tensor, Tensor]
Shape = tuple[int, int, int, int, int, int]  # batch, heads, kv heads, query len, key len, dim


@dataclass(frozen=True)
class BackwardTruth:
    """expected: float64; sdpa: in the dtype of the inputs; both of q, k and v."""

    q: Tensor
    k: Tensor
    v: Tensor
    dout: Tensor
    causal: Causal
    scale: float | None
    expected: Three
    sdpa: Three

    def judge(self, gradients: Three) -> None:
        """Fail with the reason if a gradient is not right by the rule of the forward."""
        each = zip("qkv", gradients, self.expected, self.sdpa, strict=True)
        for name, gradient, expected, sdpa in each:
            found = truth.check(gradient, expected, sdpa)
            assert found.correct, f"d{name}: {found.reason}"

    def ours(self) -> Three:
        """The gradients of flashbench.attention."""
        return ours(self.q, self.k, self.v, self.dout, self.causal, self.scale)

    def judge_ours(self) -> None:
        """Compute with flashbench and judge."""
        self.judge(self.ours())


def ours(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, causal: Causal, scale: float | None = None
) -> Three:
    """The gradients of flashbench.attention with grouped heads allowed."""
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    out = attention(*inputs, **for_ours(causal), scale=scale, enable_gqa=True)
    dq, dk, dv = torch.autograd.grad(out, inputs, dout)
    return dq, dk, dv


def of_sdpa(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, causal: Causal, scale: float | None = None
) -> Three:
    """The gradients of SDPA."""
    inputs = [x.detach().contiguous().requires_grad_() for x in (q, k, v)]
    # SDPA masks before it scales, so its causal rows are NaN unless the scale is positive. The sign
    # can be that of q, exactly; scores are zero without a scale if q and k are.
    sign = 1.0 if scale is None or scale > 0 else -1.0 if scale < 0 else 0.0
    out = scaled_dot_product_attention(
        inputs[0] * sign,
        inputs[1] * abs(sign),
        inputs[2],
        **for_sdpa(causal, q, k),
        scale=abs(scale) if scale else None,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    dq, dk, dv = torch.autograd.grad(out, inputs, dout.contiguous())
    return dq, dk, dv


def truth_of(
    q: Tensor, k: Tensor, v: Tensor, dout: Tensor, causal: Causal, scale: float | None = None
) -> BackwardTruth:
    """The truth of given inputs."""
    expected = attention_backward(q, k, v, dout, **for_reference(causal), scale=scale)
    sdpa = of_sdpa(q, k, v, dout, causal, scale)
    return BackwardTruth(q, k, v, dout, causal, scale, expected, sdpa)


def random_inputs(
    shape: Shape, dtype: torch.dtype, seed: int = 0, device: str = "cpu"
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v and dout drawn from N(0, 1), contiguous."""
    batch, heads, kv_heads, q_len, k_len, head_dim = shape
    generator = torch.Generator().manual_seed(seed)

    def randn(heads: int, length: int) -> Tensor:
        return torch.randn(batch, heads, length, head_dim, generator=generator).to(device, dtype)

    return randn(heads, q_len), randn(kv_heads, k_len), randn(kv_heads, k_len), randn(heads, q_len)


@lru_cache(maxsize=64)  # each instruction set in turn meets the same cases
def random_truth(
    shape: Shape,
    dtype: torch.dtype,
    causal: Causal,
    scale: float | None = None,
    device: str = "cpu",
) -> BackwardTruth:
    """The truth of N(0, 1) inputs."""
    return truth_of(*random_inputs(shape, dtype, device=device), causal, scale)


def with_outliers(x: Tensor, seed: int) -> Tensor:
    """Adds N(0, 100) to one element of a thousand, as real activations have them."""
    generator = torch.Generator().manual_seed(seed)
    rare = torch.rand(x.shape, generator=generator) < 0.001
    return x + (rare * 10 * torch.randn(x.shape, generator=generator)).to(x.device, x.dtype)
