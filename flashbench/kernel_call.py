"""Calls of the extension with torch tensors, forward and backward.

The tensors are plain and fit together (`flashbench.torch_attention` has checked that); here each
becomes an address and strides, checked against its storage, and outputs are made.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flashbench import cuda_gradients
from flashbench.extension import load
from flashbench.scoring import Scoring
from flashbench.tensor_memory import address_and_strides, plain, require_apart, require_new

C = load()


def forward(
    q: Tensor, k: Tensor, v: Tensor, scoring: Scoring, *, with_lse: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Attention and, if asked for, each row's log-sum-exp: fp32 (batch, heads, q_len)."""
    if with_lse and q.is_cuda:
        q, scoring = cuda_gradients.with_positive_scale(q, scoring)
    addresses, strides = _memory((("q", q), ("k", k), ("v", v)))
    made = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    out = _output("the output", made, q.shape, q.dtype, (q, k, v))
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device) if with_lse else None
    if lse is not None:
        _output("the log-sum-exp", lse, q.shape[:3], torch.float32, (q, k, v))
    addresses += [Tensor.data_ptr(out), 0 if lse is None else Tensor.data_ptr(lse)]
    strides.append(Tensor.stride(out))
    _call("attention", q, *addresses, _shape(q, k), *strides, *scoring.of(q, k))
    return made, lse


def backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    dout: Tensor,
    scoring: Scoring,
    wanted: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of q, k and v; None for those that are not wanted.

    out, lse: of `forward`; dout: of out's shape and dtype, any strides.
    """
    if q.is_cuda:
        gradients = cuda_gradients.backward(_backward, q, k, v, out, lse, dout, scoring)
        dq, dk, dv = (x if want else None for x, want in zip(gradients, wanted, strict=True))
        return dq, dk, dv
    return _backward(q, k, v, out, lse, dout, scoring, wanted)


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    dout: Tensor,
    scoring: Scoring,
    wanted: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    inputs = (q, k, v, out, dout)
    addresses, strides = _memory(
        zip(("q", "k", "v", "the output", "its gradient"), inputs, strict=True)
    )
    addresses.insert(4, Tensor.data_ptr(lse))
    gradients: list[Tensor | None] = [
        torch.empty(x.shape, dtype=x.dtype, device=x.device) if want else None
        for x, want in zip((q, k, v), wanted, strict=True)
    ]
    for name, x, made in zip(("q", "k", "v"), (q, k, v), gradients, strict=True):
        if made is None:
            addresses.append(0)
            strides.append((0, 0, 0, 0))
            continue
        others = (*inputs, lse)
        gradient = _output(f"the gradient of {name}", made, x.shape, x.dtype, others)
        addresses.append(Tensor.data_ptr(gradient))
        strides.append(Tensor.stride(gradient))
    deterministic = torch.are_deterministic_algorithms_enabled()
    arguments = (addresses, _shape(q, k), strides, *scoring.of(q, k), deterministic)
    if q.is_cuda:
        with torch.cuda.device(q.device):
            size = C.cuda_attention_backward_scratch(*arguments)
            scratch = torch.empty(size, dtype=torch.uint8, device=q.device)
            _call("attention_backward", q, *arguments, Tensor.data_ptr(scratch))
    else:
        _call("attention_backward", q, *arguments)
    dq, dk, dv = gradients
    return dq, dk, dv


def _shape(q: Tensor, k: Tensor) -> tuple[int, ...]:
    batch, heads, q_len, head_dim = q.shape
    return batch, heads, k.shape[1], q_len, k.shape[2], head_dim


def _output(
    name: str,
    made: Tensor,
    shape: Sequence[int],
    dtype: torch.dtype,
    others: tuple[Tensor, ...],
) -> Tensor:
    """What torch made as an output, as plain memory apart from that of the others."""
    out = plain(name, made)
    require_new(name, out, tuple(shape), dtype, others[0].device)
    address_and_strides(name, out)
    require_apart(out, *others)
    return out


def _memory(named: Any) -> tuple[list[int], list[tuple[int, ...]]]:
    addresses, strides = zip(*(address_and_strides(name, x) for name, x in named), strict=True)
    return list(addresses), list(strides)


def _call(function: str, q: Tensor, *arguments: object) -> None:
    """Call the extension's function for q's device, on the current stream of the device."""
    if not q.is_cuda:
        getattr(C, f"cpu_{function}")(*arguments, torch.get_num_threads())
        return
    # The raw handle: building a torch.cuda.Stream object costs more than the whole launch.
    stream = torch._C._cuda_getCurrentRawStream(q.device.index)
    if torch._C._cuda_getDevice() == q.device.index:
        getattr(C, f"cuda_{function}")(*arguments, stream)
    else:
        with torch.cuda.device(q.device):
            getattr(C, f"cuda_{function}")(*arguments, stream)
