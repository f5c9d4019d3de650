"""RMS norm by torch.compile: it is compiled before the first launch, and kept."""

import torch
from torch import Tensor


@torch.compile
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    """x: (rows, dim); weight: (dim,)."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(x.dtype)
