"""How attention scores queries and keys."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# The order is that of `enum class Dtype` in csrc/attention.h.
DTYPE_CODES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


@dataclass(frozen=True)
class Scoring:
    """How q and k are scored: the mask and the scale (None: 1 / sqrt(head_dim))."""

    causal: bool
    bottom_right: bool
    scale: float | None

    def scale_of(self, q: Tensor) -> float:
        """The factor of the scores."""
        return 1 / math.sqrt(q.shape[3]) if self.scale is None else float(self.scale)

    def offset_of(self, q: Tensor, k: Tensor) -> int:
        """The position among the keys of q's first row: the last key that it sees, if causal."""
        return k.shape[2] - q.shape[2] if self.bottom_right else 0

    def of(self, q: Tensor, k: Tensor) -> tuple[float, bool, int, int]:
        """The extension's arguments from `scale` to `dtype`."""
        return self.scale_of(q), self.causal, self.offset_of(q, k), DTYPE_CODES[q.dtype]
