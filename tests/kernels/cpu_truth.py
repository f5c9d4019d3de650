"""Cases with their truth: inputs, the float64 reference and SDPA's result, made once a case."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from masks import for_ours, for_reference, for_sdpa
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from flashbench import attention
from flashbench.operations.attention import truth as reference
from flashbench.operations.attention.operation import Causal


@dataclass(frozen=True)
class Truth:
    """expected: float64; sdpa: in the dtype of the inputs."""

    q: Tensor
    k: Tensor
    v: Tensor
    causal: Causal
    scale: float | None
    expected: Tensor
    sdpa: Tensor

    def judge(self, out: Tensor) -> None:
        """Fail with the reason if `out` is not right by the error rule of attention."""
        found = reference.check(out, self.expected, self.sdpa)
        assert found.correct, found.reason

    def judge_ours(self) -> None:
        """Compute with flashbench and judge."""
        self.judge(ours(self.q, self.k, self.v, self.causal, self.scale))


def ours(q: Tensor, k: Tensor, v: Tensor, causal: Causal, scale: float | None = None) -> Tensor:
    """flashbench.attention with grouped heads allowed."""
    return attention(q, k, v, **for_ours(causal), scale=scale, enable_gqa=True)


def truth_of(q: Tensor, k: Tensor, v: Tensor, causal: Causal, scale: float | None = None) -> Truth:
    """The truth of given inputs."""
    expected = reference.attention(q, k, v, **for_reference(causal), scale=scale)
    # SDPA masks before it scales, so a negative scale makes its causal rows NaN; -q is exact.
    negative = scale is not None and scale < 0
    sdpa = scaled_dot_product_attention(
        -q if negative else q,
        k,
        v,
        **for_sdpa(causal, q, k),
        scale=-scale if negative and scale else scale,
        enable_gqa=True,
    )
    return Truth(q, k, v, causal, scale, expected, sdpa)


@lru_cache(maxsize=128)  # each instruction set in turn meets the same cases
def random_truth(
    shape: tuple[int, int, int, int, int, int],
    dtype: torch.dtype,
    causal: Causal,
    scale: float | None = None,
) -> Truth:
    """N(0, 1) inputs; shape: batch, heads, kv heads, query length, key length, head dim."""
    return truth_of(*random_inputs(shape, dtype), causal, scale)


def random_inputs(
    shape: tuple[int, int, int, int, int, int], dtype: torch.dtype, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """q, k, v drawn from N(0, 1), contiguous."""
    batch, heads, kv_heads, q_len, k_len, head_dim = shape
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(batch, heads, q_len, head_dim, generator=generator)
    k = torch.randn(batch, kv_heads, k_len, head_dim, generator=generator)
    v = torch.randn(batch, kv_heads, k_len, head_dim, generator=generator)
    return q.to(dtype), k.to(dtype), v.to(dtype)
