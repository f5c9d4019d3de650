"""Tensors as the memory that a kernel reads and writes.

A kernel takes an address, a shape and strides for true. A subclass of torch.Tensor can say anything
of itself, a mode of torch can put anything in the place of a new tensor, and a storage can be
smaller than the tensor on it: here each is asked of torch itself, and held against the storage.
csrc/tensor_call.cpp holds plain tensors against their storage too, and leaves what does not fit
to be refused here.
"""

import torch
from torch import Tensor, UntypedStorage
from torch._subclasses.fake_tensor import FakeTensor

# Of classes that leave torch's operations as they are, as torch.nn.Parameter does.
_USUAL_DISPATCH = Tensor.__torch_dispatch__
_USUAL_FUNCTIONS = (Tensor.__torch_function__.__func__, torch._C._disabled_torch_function_impl)  # type: ignore[attr-defined]


def plain(name: str, x: object) -> Tensor:
    """A torch.Tensor itself, and no subclass, of the same memory.

    Raises TypeError for what is no tensor, or may mean something else by its memory; ValueError
    for what has none, or is not dense.
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
            f"{name} is a {kind.__name__}, which defines torch's operations anew; pass the plain "
            "torch.Tensor that it stands for"
        )
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        if Tensor.layout.__get__(x) != torch.strided:  # type: ignore[attr-defined]
            raise ValueError(not_dense(name))
        return Tensor.as_subclass(x, Tensor)  # type: ignore[arg-type]


def address_and_strides(name: str, x: Tensor) -> tuple[int, tuple[int, ...]]:
    """Of a plain dense tensor whose every element lies in its storage; strides in elements.

    Raises ValueError where they do not, or where there is no memory: torch's tracing modes and
    transforms make tensors that only stand for others.
    """
    try:
        address, storage = Tensor.data_ptr(x), Tensor.untyped_storage(x)
    except (RuntimeError, NotImplementedError):  # a wrapper of vmap or jvp
        raise ValueError(_no_memory(name)) from None
    strides = Tensor.stride(x)
    if not Tensor.numel(x):
        return address, strides
    last = sum((size - 1) * stride for size, stride in zip(x.shape, strides, strict=True))
    needed = (Tensor.storage_offset(x) + last + 1) * x.itemsize
    held = UntypedStorage.nbytes(storage)  # of torch: a subclass, or an attribute, can say more
    if needed > held:
        raise ValueError(
            f"{name} needs {needed} bytes of a storage that holds {held}: it was resized; "
            "pass a tensor that has its memory"
        )
    if not address:
        raise ValueError(_no_memory(name))
    return address, strides


def require_new(
    name: str, out: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    """That a plain tensor which torch was asked to make is contiguous and what was asked for.

    Raises ValueError: a mode of torch made something else of it.
    """
    asked = (
        ("shape", tuple(out.shape), shape),
        ("dtype", out.dtype, dtype),
        ("device", out.device, device),
        ("layout", out.layout, torch.strided),
    )
    wrong = [f"{what} {got} for {wanted}" for what, got, wanted in asked if got != wanted]
    if not wrong and not Tensor.is_contiguous(out):
        wrong = [f"strides {Tensor.stride(out)} for contiguous ones"]
    if not wrong and (Tensor.is_neg(out) or Tensor.is_conj(out)):
        wrong = ["a lazily negated view"]
    if wrong:
        raise ValueError(
            f"{name} is not what was asked of torch: {wrong[0]}; a TorchDispatchMode changes what "
            "torch makes: call outside of it"
        )


def require_apart(out: Tensor, *others: Tensor) -> None:
    """That a contiguous output lies in none of the tensors it is computed from.

    Raises ValueError: a mode of torch returned memory that is in use.
    """
    start = Tensor.data_ptr(out)
    end = start + Tensor.numel(out) * out.itemsize
    for x in others:
        storage = Tensor.untyped_storage(x)
        first = UntypedStorage.data_ptr(storage)
        if start < first + UntypedStorage.nbytes(storage) and first < end:
            raise ValueError(
                "the output shares the memory of an input; a TorchDispatchMode changes what torch "
                "makes: call outside of it"
            )


def not_dense(name: str) -> str:
    return f"{name} is sparse or nested; pass a dense tensor"


def _no_memory(name: str) -> str:
    return (
        f"{name} has no memory of its own; flashbench.attention takes no traced or batched "
        "tensors (vmap, jvp, functionalize)"
    )
