"""Tensors as the memory that a kernel reads and writes.

A kernel trusts an address, a shape and strides. But a subclass of torch.Tensor can claim anything
about itself, a torch mode can substitute anything for a new tensor, and a storage can be smaller
than the tensor on it: here each value is read from torch itself and checked against the storage.
csrc/plain_tensor.cpp checks plain tensors against their storage too, but leaves refusals, with
their messages, to this module.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, UntypedStorage
from torch._subclasses.fake_tensor import FakeTensor

from flashbench.extension import load

# Address, strides (in elements), and from where to where the storage reaches.
Memory = tuple[int, tuple[int, ...], int, int]
_plain_memory = load().plain_memory
# For classes that leave torch's operations unchanged, such as torch.nn.Parameter.
_USUAL_DISPATCH = Tensor.__torch_dispatch__
_USUAL_FUNCTIONS = (Tensor.__torch_function__.__func__, torch._C._disabled_torch_function_impl)  # type: ignore[attr-defined]


def plain(name: str, x: object) -> Tensor:
    """A plain torch.Tensor, not a subclass, on the same memory.

    Raises TypeError for anything but a tensor, or for one that may interpret its memory
    differently; ValueError if it has no memory, or is not dense.
    """
    kind = type(x)
    if kind is Tensor:
        return x  # type: ignore[return-value]
    if not issubclass(kind, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {kind.__name__}")
    if issubclass(kind, FakeTensor):
        raise ValueError(_no_memory(name))
    function = kind.__torch_function__
    if kind.__torch_dispatch__ is not _USUAL_DISPATCH or (
        getattr(function, "__func__", function) not in _USUAL_FUNCTIONS
    ):
        raise TypeError(
            f"{name} is a {kind.__name__}, which redefines torch's operations; pass the plain "
            "torch.Tensor that it represents"
        )
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        if Tensor.layout.__get__(x) != torch.strided:  # type: ignore[attr-defined]
            raise ValueError(not_dense(name))
        return Tensor.as_subclass(x, Tensor)  # type: ignore[arg-type]


def memory_of(name: str, x: Tensor) -> Memory:
    """The memory of a plain dense tensor whose elements are all in its storage.

    Raises ValueError if they are not, or if there is no memory: torch's tracing modes and
    transforms make tensors that only represent others.
    """
    found: Memory | None = _plain_memory(x)
    return _judged_memory(name, x) if found is None else found


def _judged_memory(name: str, x: Tensor) -> Memory:
    """`memory_of`, for everything that the extension does not judge."""
    try:
        address, storage = Tensor.data_ptr(x), Tensor.untyped_storage(x)
    except (RuntimeError, NotImplementedError):  # a wrapper of vmap or jvp
        raise ValueError(_no_memory(name)) from None
    strides = Tensor.stride(x)
    if not Tensor.numel(x):
        return address, strides, 0, 0
    last = sum((size - 1) * stride for size, stride in zip(x.shape, strides, strict=True))
    needed = (Tensor.storage_offset(x) + last + 1) * x.itemsize
    # torch's own value: a subclass, or an attribute, can claim more
    held = UntypedStorage.nbytes(storage)
    if needed > held:
        raise ValueError(
            f"{name} needs {needed} bytes of a storage that holds {held}: it was resized; pass a "
            "tensor that has all its memory"
        )
    if not address:
        raise ValueError(_no_memory(name))
    begin = UntypedStorage.data_ptr(storage)
    return address, strides, begin, begin + held


def layout_of(x: Tensor) -> torch.memory_format:
    """The memory format of what is computed for x.

    Dense in x's order of dimensions if that keeps head vectors contiguous, else contiguous: so are
    SDPA's outputs and gradients on a GPU, and views of projections get no copy on their way back.
    csrc/plain_problem.h has the same.
    """
    return torch.preserve_format if x.stride(-1) == 1 else torch.contiguous_format


def new_like(x: Tensor) -> Tensor:
    """An uninitialised tensor of x's shape, dtype and device in the layout for x."""
    return torch.empty_like(x, memory_format=layout_of(x))


def require_new(name: str, out: Tensor, expected: Tensor, device: torch.device) -> None:
    """Require that a tensor newly made by torch is like `expected` (on the meta device).

    Raises ValueError: a torch mode made something else.
    """
    asked = (
        ("shape", tuple(out.shape), tuple(expected.shape)),
        ("dtype", out.dtype, expected.dtype),
        ("device", out.device, device),
        ("layout", out.layout, torch.strided),
    )
    wrong = [f"{what} {got} for {wanted}" for what, got, wanted in asked if got != wanted]
    if not wrong:
        strides = Tensor.stride(out), Tensor.stride(expected)
        each = zip(out.shape, *strides, strict=True)
        if out.numel() and any(size > 1 and found != right for size, found, right in each):
            wrong = ["strides {} for {}".format(*strides)]
    if not wrong and (Tensor.is_neg(out) or Tensor.is_conj(out)):
        wrong = ["a lazily negated view"]
    if wrong:
        raise ValueError(
            f"{name} is not what torch was asked for: {wrong[0]}; a TorchDispatchMode changes what "
            "torch makes: call outside it"
        )


def require_apart(out: Memory, others: Iterable[Memory]) -> None:
    """Require that an output's storage does not overlap those of the tensors it is computed from.

    Raises ValueError: a torch mode returned memory that is in use.
    """
    for other in others:
        if out[2] < other[3] and other[2] < out[3]:
            raise ValueError(
                "the output shares the memory of an input; a TorchDispatchMode changes what torch "
                "makes: call outside it"
            )


def not_dense(name: str) -> str:
    return f"{name} is sparse or nested; pass a dense tensor"


def _no_memory(name: str) -> str:
    return (
        f"{name} has no memory of its own; flashbench.attention takes no traced or batched "
        "tensors (vmap, jvp, functionalize)"
    )
