"""Calls of the extension with torch tensors, forward and backward.

The tensors are plain and fit together (`torch_attention` has checked that); here each becomes an
address and strides, checked against its storage, and outputs are made.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor

from flashbench.extension import load
from flashbench.kernels import cuda_gradients
from flashbench.kernels.scoring import Scoring
from flashbench.kernels.tensor_memory import (
    Memory,
    layout_of,
    memory_of,
    plain,
    require_apart,
    require_new,
)

C = load()
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]
_ALL = (True, True, True)
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_NOWHERE: Memory = (0, (0, 0, 0, 0), 0, 0)  # of a gradient that is not wanted


def forward(
    q: Tensor, k: Tensor, v: Tensor, scoring: Scoring, *, with_lse: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Attention and, if asked for, each row's log-sum-exp: fp32 (batch, heads, q_len)."""
    if with_lse and q.is_cuda:
        q, scoring = cuda_gradients.with_positive_scale(q, scoring)
    inputs = [memory_of("q", q), memory_of("k", k), memory_of("v", v)]
    out, of_out = _new_like("the output", q, inputs)
    lse, address_of_lse = None, 0
    if with_lse:
        make = partial(torch.empty, q.shape[:3], dtype=torch.float32)
        lse, of_lse = new_output("the log-sum-exp", make, q.device, inputs)
        address_of_lse = of_lse[0]
    addresses, strides = _split([*inputs, of_out])
    _call("attention", q, *addresses, address_of_lse, _shape(q, k), *strides, *scoring.of(q, k))
    return out, lse


def backward(
    saved: Sequence[Tensor], dout: Tensor, scoring: Scoring, wanted: Sequence[bool] = _ALL
) -> Gradients:
    """The gradients of q, k and v; None for those that are not wanted.

    saved: q, k, v, and `forward`'s out and lse; dout: of out's shape and dtype, any strides.
    """
    if dout.is_cuda:
        gradients = cuda_gradients.backward(_backward, saved, dout, scoring)
        dq, dk, dv = (x if want else None for x, want in zip(gradients, wanted, strict=True))
        return dq, dk, dv
    return _backward(saved, dout, scoring, wanted)


def _backward(
    saved: Sequence[Tensor],
    dout: Tensor,
    scoring: Scoring,
    wanted: Sequence[bool] = _ALL,
    layouts: Sequence[Tensor] | None = None,
) -> Gradients:
    """layouts: tensors that the gradients are laid out like, if not q, k and v."""
    q, k, v, out, lse = saved
    names = ("q", "k", "v", "the output", "the output's gradient")
    inputs = [memory_of(name, x) for name, x in zip(names, (q, k, v, out, dout), strict=True)]
    of_lse = memory_of("the log-sum-exp", lse)
    addresses, strides = _split(inputs)
    addresses.insert(4, of_lse[0])
    gradients: list[Tensor | None] = []
    for name, x, want in zip(names, layouts or (q, k, v), wanted, strict=False):
        gradient, memory = None, _NOWHERE
        if want:
            others = (*inputs, of_lse)
            gradient, memory = _new_like(f"the gradient of {name}", x, others)
        gradients.append(gradient)
        addresses.append(memory[0])
        strides.append(memory[1])
    deterministic = torch.are_deterministic_algorithms_enabled()
    arguments = (addresses, _shape(q, k), strides, *scoring.of(q, k), deterministic)
    if q.is_cuda:
        with _current(q.device):
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


def _new_like(name: str, x: Tensor, others: Sequence[Memory]) -> tuple[Tensor, Memory]:
    make = partial(torch.empty_like, x, memory_format=layout_of(x))
    return new_output(name, make, x.device, others)


def new_output(
    name: str,
    make: Callable[..., Tensor],
    device: torch.device,
    others: Sequence[Memory],
) -> tuple[Tensor, Memory]:
    """The new tensor make(device=device), and its memory: apart from that of the others, which
    only a torch mode could share.

    make: a function of torch, maybe with arguments bound. torch.compile, where it runs this outside
    a graph, follows calls of Python functions, and must not where modes are disabled.
    """
    made = make(device=device)
    if not _dispatch_modes() and not _function_modes():
        return made, memory_of(name, made)
    out = plain(name, made)
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        expected = make(device="meta")
    require_new(name, out, expected, device)
    memory = memory_of(name, out)
    require_apart(memory, others)
    return made, memory


def _split(memories: Sequence[Memory]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Addresses and strides."""
    return [memory[0] for memory in memories], [memory[1] for memory in memories]


def _call(function: str, q: Tensor, *arguments: object) -> None:
    """Call the extension's function for q's device, on the current stream of the device."""
    if not q.is_cuda:
        getattr(C, f"cpu_{function}")(*arguments, torch.get_num_threads())
        return
    # The raw handle: building a torch.cuda.Stream object costs more than the whole launch.
    stream = torch._C._cuda_getCurrentRawStream(q.device.index)
    with _current(q.device):
        getattr(C, f"cuda_{function}")(*arguments, stream)


def _current(device: torch.device) -> AbstractContextManager[object]:
    """Make the CUDA device current; most often it is, and then torch's manager is needless."""
    if torch._C._cuda_getDevice() == device.index:
        return nullcontext()
    return torch.cuda.device(device)
