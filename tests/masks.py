"""The masks that kernels are tested with, in the keywords of each function."""

from typing import Any

import torch
from torch import Tensor

from flashbench.operations.attention.operation import MASKS as NAMES
from flashbench.operations.attention.operation import Causal

MASKS: tuple[Causal, ...] = (False, True, "bottom_right")
IDS = NAMES


def for_ours(causal: Causal) -> dict[str, Any]:
    """The arguments of flashbench.attention."""
    if causal == "bottom_right":
        from torch.nn.attention.bias import CausalVariant  # imports torch's compiler: 1.3 s

        return {"attn_mask": CausalVariant.LOWER_RIGHT}
    return {"is_causal": causal}


def for_reference(causal: Causal) -> dict[str, bool]:
    """The arguments of flashbench.operations.attention.truth.attention."""
    return {"is_causal": bool(causal), "bottom_right": causal == "bottom_right"}


def for_sdpa(causal: Causal, q: Tensor, k: Tensor) -> dict[str, Any]:
    """SDPA's arguments: not all backends take torch's causal_lower_right, all take a matrix."""
    if causal == "bottom_right":
        q_len, k_len = q.shape[2], k.shape[2]
        seen = torch.ones(q_len, k_len, dtype=torch.bool, device=q.device)
        return {"attn_mask": seen.tril(k_len - q_len)}
    return {"is_causal": causal}


def for_extension(causal: Causal, q_len: int, k_len: int) -> tuple[bool, int]:
    """The arguments of functions of flashbench._C: causal and causal_offset."""
    return bool(causal), k_len - q_len if causal == "bottom_right" else 0
