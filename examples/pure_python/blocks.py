"""Attention over blocks of keys with a running softmax: no matrix of all scores."""

import torch
from torch import Tensor

KEYS = 32  # of a block


def attention(
    q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, enable_gqa: bool = False
) -> Tensor:
    """q: (batch, heads, q_len, head_dim); k, v: (batch, kv_heads, k_len, head_dim)."""
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    q = q * q.shape[-1] ** -0.5
    top = torch.full_like(q[..., :1], -torch.inf)  # the largest score of a row so far
    total, out = torch.zeros_like(top), torch.zeros_like(q)
    rows = torch.arange(q.shape[-2], device=q.device)[:, None]
    for first in range(0, k.shape[-2], KEYS):
        scores = q @ k[..., first : first + KEYS, :].transpose(-1, -2)
        if is_causal:
            columns = torch.arange(first, first + scores.shape[-1], device=q.device)
            scores = scores.masked_fill(columns > rows, -torch.inf)
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights, kept = (scores - new).exp(), (top - new).exp()
        total = total * kept + weights.sum(-1, keepdim=True)
        out = out * kept + weights @ v[..., first : first + KEYS, :]
        top = new
    return out / total
