"""A candidate whose import sets how torch multiplies, and that needs it so."""

import torch
from torch import Tensor

torch.set_float32_matmul_precision("high")


def attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    assert torch.get_float32_matmul_precision() == "high"
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
