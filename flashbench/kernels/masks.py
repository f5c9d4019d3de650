"""The masks that attention takes, in torch's words."""

import sys
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from torch.nn.attention.bias import CausalBias, CausalVariant

    CausalMask = CausalBias | CausalVariant


def alignment(
    attn_mask: "CausalMask | None", is_causal: bool, q: Tensor, k: Tensor
) -> tuple[bool, bool]:
    """Whether the mask is causal, and whether it is aligned at the bottom right.

    q, k: (..., length, head_dim), which a CausalBias has to fit. Raises TypeError or ValueError.
    """
    if attn_mask is None:
        return is_causal, False
    # Slow to import, but a caller with such a mask already has.
    bias = sys.modules.get("torch.nn.attention.bias")
    if bias is not None and isinstance(attn_mask, bias.CausalBias):
        lengths = (attn_mask.seq_len_q, attn_mask.seq_len_kv)
        found = (*q.shape[-2:-1], *k.shape[-2:-1])
        if lengths != found:
            raise ValueError(f"attn_mask is for the lengths {lengths}, q and k have {found}")
        variant = attn_mask.variant
    elif bias is not None and isinstance(attn_mask, bias.CausalVariant):
        variant = attn_mask
    else:
        raise TypeError(
            "attn_mask must be None, or a CausalBias or CausalVariant of torch.nn.attention.bias, "
            f"got {type(attn_mask).__name__}; for a causal mask pass is_causal=True, for padding "
            "cut it off k and v, for any other mask call "
            "torch.nn.functional.scaled_dot_product_attention"
        )
    if is_causal is not False:
        raise ValueError("attn_mask is given, so is_causal must be False")
    return True, variant == bias.CausalVariant.LOWER_RIGHT
