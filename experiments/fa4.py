"""FlashAttention-4 (package flash-attn-4, CuTe DSL) as a candidate, measured beside ours.

FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED=1 PYTHONPATH=experiments flashbench run --device cuda \
    --preset grid --dtype bf16 --candidate flashbench --candidate fa4=fa4:attention

It compiles a kernel on the first call of each configuration; the variable caches them on disk for
the next launch.
"""

from flash_attn.cute import flash_attn_func
from torch import Tensor


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool = False, enable_gqa: bool = False
) -> Tensor:
    """SDPA's meaning for equal query and key lengths: FA4 aligns the causal mask at the end.

    q: (batch, heads, length, head_dim), k and v with as many heads or a divisor of them. FA4 wants
    (batch, length, heads, head_dim): the same memory, transposed views.
    """
    if is_causal and q.shape[2] != k.shape[2]:
        raise NotImplementedError("FA4 aligns the causal mask at the end, SDPA at the beginning")
    out = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=is_causal)
    return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)
