"""The gradients of attention in float64. `truth.check` judges each of them, beside SDPA's."""

import math

import torch
from torch import Tensor


def attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dout: Tensor,
    *,
    is_causal: bool = False,
    bottom_right: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of sum(dout * attention(q, k, v)) with respect to q, k and v.

    Shapes, mask and scale as in `truth.attention`; dout has q's shape. Returns float64 of the
    shapes of q, k and v. A pair of query and key that the mask hides has no part in any gradient,
    even if one of them is NaN or infinite.
    """
    batch, heads, q_len, head_dim = q.shape
    kv_heads, k_len = k.shape[1], k.shape[2]
    scale = 1 / math.sqrt(head_dim) if scale is None else scale
    dq, dk, dv = (torch.zeros(x.shape, dtype=torch.float64, device=x.device) for x in (q, k, v))
    if q.numel() == 0 or k_len == 0:
        return dq, dk, dv
    seen = torch.ones(q_len, k_len, dtype=torch.bool, device=q.device)
    if is_causal:
        seen = seen.tril(k_len - q_len if bottom_right else 0)
    hidden = ~seen
    for b in range(batch):
        for head in range(heads):
            group = head // (heads // kv_heads)
            queries, douts = q[b, head].double(), dout[b, head].double()
            keys, values = k[b, group].double(), v[b, group].double()
            scores = (queries @ keys.T * scale).masked_fill(hidden, -math.inf)
            weights = torch.softmax(scores, dim=-1).masked_fill(hidden, 0)
            dweights = (douts @ values.T).masked_fill(hidden, 0)
            delta = (weights * dweights).sum(dim=-1, keepdim=True)
            dscores = (weights * (dweights - delta) * scale).masked_fill(hidden, 0)
            dq[b, head] = _product_of_seen(dscores, keys, seen)
            dk[b, group] += _product_of_seen(dscores.T, queries, seen.T)
            dv[b, group] += _product_of_seen(weights.T, douts, seen.T)
    return dq, dk, dv


def _product_of_seen(weights: Tensor, rows: Tensor, seen: Tensor) -> Tensor:
    """weights @ rows with pairs that are not seen treated as absent: 0 * NaN must not spread."""
    special = ~torch.isfinite(rows).all(dim=1)
    product = weights @ rows.masked_fill(special[:, None], 0)
    for j in special.nonzero()[:, 0].tolist():
        product += (weights[:, j, None] * rows[j]).masked_fill(~seen[:, j, None], 0)
    return product
