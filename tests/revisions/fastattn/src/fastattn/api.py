import torch

from fastattn import _kernels


def sdpa_like(q, k, v, is_causal=False):
    if q.dtype != torch.float32 or q.device.type != "cpu":
        raise NotImplementedError("fp32 on the CPU")
    q, k, v = (x.contiguous() for x in (q, k, v))
    out = torch.empty_like(q)
    batch, heads, rows, dim = q.shape
    pointers = (x.data_ptr() for x in (q, k, v, out))
    _kernels.forward(*pointers, batch * heads, rows, k.shape[2], dim, is_causal)
    return out


def marker():
    return _kernels.marker()
