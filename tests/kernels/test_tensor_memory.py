"""Claims of torch subclasses and modes about memory are never trusted."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from e4m3_rule import inputs
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import flashbench.kernels.torch_attention as torch_attention
from flashbench import attention
from flashbench.kernels import fp8, tensor_memory

SHAPE = (1, 2, 5, 64)


def tensors() -> list[Tensor]:
    """q, k and v."""
    torch.manual_seed(0)
    return [torch.randn(SHAPE) for _ in range(3)]


def resized(x: Tensor, size: int = 16) -> Tensor:
    """A tensor whose storage holds no more than `size` bytes."""
    x = x.clone()
    x.untyped_storage().resize_(size)
    return x


class Changing:
    """Puts something else in the place of every new, uninitialised tensor."""

    def __init__(self, change: Callable[[Tensor], object]) -> None:
        super().__init__()
        self._change = change


class Changes(Changing, TorchDispatchMode):
    """By the operations that torch dispatches."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        out = function(*args, **(kwargs or {}))
        return self._change(out) if "aten.empty" in str(function) else out


class ChangesCalls(Changing, TorchFunctionMode):
    """By the functions of torch that Python calls; it lies about addresses, too."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        name = getattr(function, "__name__", "")
        if name == "data_ptr":
            return 4096
        out = function(*args, **(kwargs or {}))
        return self._change(out) if name.startswith("empty") else out


class Wrapper(Tensor):
    """Stands for another tensor, as DTensor does."""

    @staticmethod
    def __new__(cls, x: Tensor) -> "Wrapper":
        return Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)

    @classmethod
    def __torch_dispatch__(cls, *_: Any, **__: Any) -> object:
        return NotImplemented


OTHER_OUTPUTS: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "dtype": (lambda x: x.half(), "dtype torch.float16 for torch.float32"),
    "wider dtype": (lambda x: x.double(), "dtype torch.float64 for torch.float32"),
    "device": (lambda x: x.to("meta"), "device meta for cpu"),
    "length": (lambda x: x[:, :, :1], r"shape \(1, 2, 1, 64\) for \(1, 2, 5, 64\)"),
    "dimensions": (lambda x: x[0], r"shape \(2, 5, 64\) for \(1, 2, 5, 64\)"),
    "expanded": (lambda x: x[:, :, :1].expand(SHAPE), r"strides \(\d+, \d+, 0, 1\) for \(640"),
    "order": (lambda x: x.mT.contiguous().mT, r"strides \(.*\) for \(640, 320, 64, 1\)"),
    "sparse": (lambda x: x.to_sparse(), "layout torch.sparse_coo for torch.strided"),
    "wrapped": (Wrapper, "the output is a Wrapper"),
    "nothing": (lambda x: None, "the output must be a torch.Tensor, got NoneType"),
    "resized": (resized, "the output needs 2560 bytes of a storage that holds 16"),
    "no storage": (lambda x: resized(x, 0), "the output needs 2560 bytes .* holds 0"),
}


@pytest.mark.parametrize("what", OTHER_OUTPUTS)
@pytest.mark.parametrize("scale", [None, 1])
def test_an_output_that_a_mode_changed_is_refused(what: str, scale: int | None) -> None:
    """Nothing is written if torch, under a mode, made something other than requested."""
    change, said = OTHER_OUTPUTS[what]
    q, k, v = tensors()
    with Changes(change), pytest.raises((TypeError, ValueError), match=said) as refused:
        attention(q, k, v, scale=scale)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("what", OTHER_OUTPUTS)
def test_a_mode_of_functions_changes_nothing(what: str) -> None:
    """What Python calls of torch is no business of a mode inside attention, as inside SDPA."""
    q, k, v = tensors()
    expected = attention(q, k, v)
    with ChangesCalls(OTHER_OUTPUTS[what][0]):
        out = attention(q, k, v)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_an_output_in_the_memory_of_an_input_is_refused(which: int) -> None:
    """A mode that hands out memory in use would have the input overwritten."""
    q, k, v = tensors()
    before = [x.clone() for x in (q, k, v)]
    taken = (q, k, v)[which]
    with Changes(lambda x: taken.view(SHAPE)), pytest.raises(ValueError, match="shares the memory"):
        attention(q, k, v)
    assert all(torch.equal(x, y) for x, y in zip((q, k, v), before, strict=True))


@pytest.mark.parametrize("what", ["dtype", "device", "length", "dimensions", "expanded", "wrapped"])
def test_the_short_way_checks_what_empty_like_returns(what: str) -> None:
    """Where something else than a mode changes it, the extension leaves the call to Python."""
    change = OTHER_OUTPUTS[what][0]
    q, k, v = tensors()
    expected = attention(q, k, v)
    parts = torch_attention.PARTS_OF_TORCH
    bind = torch_attention._C.bind_torch
    try:
        other = lambda x, **options: change(torch.empty_like(x, **options))  # noqa: E731
        bind(**parts | {"empty_like": other})
        assert torch_attention._plain_attention(q, k, v, False, False, None, False) is None
        assert torch.equal(attention(q, k, v), expected)
    finally:
        bind(**parts)


def lying(**words: object) -> Callable[[Tensor], Tensor]:
    """As a subclass that says something else of itself."""
    return lambda x: x.as_subclass(type("Lying", (Tensor,), words))


LIES: dict[str, Callable[[Tensor], Tensor]] = {
    "data_ptr": lying(data_ptr=lambda x: 4096),
    "stride": lying(stride=lambda x: (10**9, 10**9, 10**9, 1)),
    "shape": lying(shape=property(lambda x: torch.Size((1, 2, 5_000_000, 64)))),
    "dtype": lying(dtype=property(lambda x: torch.float16)),
    "device": lying(device=property(lambda x: torch.device("meta"))),
    "dim": lying(dim=lambda x: 3),
    "storage": lying(untyped_storage=lambda x: torch.UntypedStorage(0)),
    "dlpack": lying(__dlpack__=lambda x, **_: None, __dlpack_c_exchange_api__=None),
    "parameter": lambda x: torch.nn.Parameter(x, requires_grad=False),
    "buffer": lambda x: torch.nn.Buffer(x),
}


@pytest.mark.parametrize("what", LIES)
@pytest.mark.parametrize("which", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_subclass_is_read_as_torch_reads_it(what: str, which: tuple[int, ...]) -> None:
    """Whatever a subclass says of its address and form, the result is that of its memory."""
    q, k, v = tensors()
    given = [LIES[what](x) if place in which else x for place, x in enumerate((q, k, v))]
    assert torch.equal(attention(*given), attention(q, k, v))


def test_attributes_of_a_plain_tensor_are_not_asked() -> None:
    """A tensor has a dictionary, where an address can be said too."""
    q, k, v = tensors()
    expected = attention(q, k, v)
    q.data_ptr = lambda: 4096  # type: ignore[method-assign]
    k.stride = lambda: (10**9, 10**9, 10**9, 1)  # type: ignore[method-assign, assignment, misc]
    assert torch.equal(attention(q, k, v, scale=1), attention(q.clone(), k, v, scale=1))
    assert torch.equal(attention(q, k, v), expected)


class Scaled(Tensor):
    """Means twice what its memory holds, to functions of torch."""

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        return super().__torch_function__(function, types, args, kwargs or {})


BYTES = 2560  # of SHAPE in float32


def short(x: Tensor, **words: Any) -> Tensor:
    """A tensor on a storage of 16 bytes, of a class that says something else."""
    kind = type("Storage", (torch.UntypedStorage,), words)
    out = torch.empty(0).set_(kind(BYTES), 0, x.shape, x.stride())
    out.untyped_storage().resize_(16)
    assert type(out.untyped_storage()) is kind
    return out


def claiming(x: Tensor) -> Tensor:
    """A tensor on a storage of 16 bytes, with attributes that say something else."""
    x = resized(x)
    x.keep = x.untyped_storage()  # type: ignore[attr-defined]
    x.keep.nbytes = lambda: BYTES  # type: ignore[attr-defined]
    x.untyped_storage = lambda: torch.UntypedStorage(BYTES)  # type: ignore[method-assign]
    x.storage_offset = lambda: -BYTES  # type: ignore[method-assign]
    return x


SHORT = f"needs {BYTES} bytes of a storage that holds 16"
REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "wrapper": (Wrapper, "is a Wrapper, which redefines"),
    "subclass": (lambda x: x.as_subclass(Scaled), "is a Scaled, which redefines"),
    "storage of 0 bytes": (lambda x: resized(x, 0), f"needs {BYTES} bytes of a storage .* holds 0"),
    "nested": (lambda x: torch.nested.nested_tensor([x[0], x[0]]), "is sparse or nested"),
    "jagged": (
        lambda x: torch.nested.nested_tensor([x[0, 0], x[0, 1]], layout=torch.jagged),
        "is a NestedTensor",
    ),
    "sparse parameter": (lambda x: torch.nn.Parameter(x.to_sparse(), False), "is sparse or nested"),
    "opaque": (lambda x: x.to_mkldnn(), "is sparse or nested"),
    "parameter": (lambda x: torch.nn.Parameter(resized(x), requires_grad=False), SHORT),
    # Neither a subclass of a storage nor an attribute decides what memory there is.
    "storage's length": (lambda x: short(x, __len__=lambda _: BYTES), SHORT),
    "storage's bytes": (lambda x: short(x, nbytes=lambda _: BYTES), SHORT),
    "attributes": (claiming, SHORT),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("scale", [None, 1])
def test_what_has_no_memory_of_its_own_is_refused(what: str, place: int, scale: int | None) -> None:
    """What means something else, is not dense or reaches past its storage is refused by name,
    whichever of q, k and v it is, and whatever it says of itself."""
    change, said = REFUSED[what]
    given = tensors()
    given[place] = change(given[place])
    with pytest.raises((TypeError, ValueError), match=f"^{'qkv'[place]} {said}"):
        attention(*given, scale=scale)


def behind(x: Tensor, size: int) -> Tensor:
    """A view that begins 3 elements into a storage of `size` bytes."""
    out = torch.empty(x.numel() + 3)[3:].view(x.shape)
    out.copy_(x).untyped_storage().resize_(size)
    return out


def rows(x: Tensor, size: int) -> Tensor:
    """Every row the last of a storage of `size` bytes that begins with another."""
    row = torch.stack((x[0, 0, 1], x[0, 0, 0]))[1]
    row.untyped_storage().resize_(size)
    return row.expand(SHAPE)


def apart(x: Tensor, size: int) -> Tensor:
    """A transposed view, whose last element ends a storage of `size` bytes."""
    out = x.transpose(1, 2).contiguous().transpose(1, 2)
    out.untyped_storage().resize_(size)
    return out


ON_STORAGES: dict[str, tuple[Callable[[Tensor, int], Tensor], int]] = {
    "contiguous": (resized, BYTES),
    "offset": (behind, BYTES + 12),
    "expanded": (rows, 512),
    "transposed": (apart, BYTES),
}


@pytest.mark.parametrize("what", ON_STORAGES)
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("scale", [None, 1])
def test_a_plain_tensor_is_held_against_its_storage(
    what: str, place: int, scale: int | None
) -> None:
    """What ends with its storage is computed; where one byte or more is missing, it is refused."""
    change, needed = ON_STORAGES[what]
    given = tensors()
    given[place] = change(given[place], needed)
    copies = [x.contiguous() for x in given]
    assert torch.equal(attention(*given, scale=scale), attention(*copies, scale=scale))
    for size in (4, needed // 2, needed - 4, needed - 1):
        given[place].untyped_storage().resize_(size)
        said = f"^{'qkv'[place]} needs {needed} bytes of a storage that holds {size}: [^\n]*$"
        with pytest.raises(ValueError, match=said):
            attention(*given, scale=scale)


def test_a_plain_tensor_far_larger_than_its_storage_is_refused() -> None:
    """Reading past the storage would leave the pages of the process."""
    q, k, v = torch.randn(1, 1, 64, 64), *(torch.randn(1, 1, 1 << 17, 64) for _ in range(2))
    k.untyped_storage().resize_(4096)
    with pytest.raises(ValueError, match=r"^k needs 33554432 bytes of .* holds 4096"):
        attention(q, k, v)


def test_an_empty_tensor_needs_no_storage() -> None:
    """Without elements nothing is read, wherever the tensor begins."""
    q, k, v = tensors()
    k, v = torch.empty(3, 64)[2:].expand(1, 2, 1, 64)[:, :, :0], resized(v, 0)[:, :, :0]
    assert torch.equal(attention(q, k, v), torch.zeros(SHAPE))


def test_transforms_are_refused_or_right() -> None:
    """Under vmap, grad and compile: the result, or one line."""
    q, k, v = tensors()
    expected = attention(q, k, v)
    thrice = torch.vmap(lambda x: attention(q, k, v) * x)(torch.ones(3))
    assert torch.equal(thrice[2], expected)
    with pytest.raises(ValueError, match=r"^the output has no memory of its own[^\n]*$"):
        torch.func.grad(lambda x: attention(q, k, v).sum() * x)(torch.tensor(1.0))
    compiled = torch.compile(lambda x: attention(x, k, v), backend="eager")
    assert torch.equal(compiled(q), expected)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_quantized_is_held_against_its_storage(place: int) -> None:
    """torch's conversions, which quantising begins with, would read past the storage."""
    given = [x.half() for x in tensors()]
    given[place].untyped_storage().resize_(1000)
    with pytest.raises(ValueError, match=f"^{'qkv'[place]} needs 1280 bytes of .* holds 1000"):
        fp8.quantize_e4m3(*given)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"k": lambda x: x[:, :, :5]}, ValueError, r"v has shape|k has shape"),
        ({"v": lambda x: x.mT}, ValueError, "^v has shape .* quantize_e4m3 makes contiguous"),
        ({"q": lambda x: x.float()}, TypeError, "^q has dtype torch.float32"),
        ({"q_scale": lambda x: x.half()}, TypeError, "^q_scale has dtype torch.float16"),
        ({"k_scale": lambda x: x[:, :, :0]}, ValueError, "^k_scale has shape"),
        ({"v_scale": lambda x: x.to("meta")}, ValueError, "^v_scale has .* on meta"),
        ({"q": lambda x: resized(x.view(torch.uint8)).view(x.dtype)}, ValueError, "^q needs"),
        ({"k_scale": lambda x: resized(x, 4)}, ValueError, "^k_scale needs .* holds 4"),
        ({"head_dim": lambda x: 72}, ValueError, "^head_dim 72 does not fit a width of 64"),
        ({"dtype": lambda x: torch.float32}, TypeError, "^dtype is torch.float32"),
        ({"k": lambda x: x[0]}, ValueError, "^k must have 4 dimensions"),
    ],
)
def test_quantized_is_held_against_its_description(
    changes: dict[str, Callable[[Any], object]], error: type[Exception], said: str
) -> None:
    """Anyone can fill the fields of `Quantized`: attention_e4m3 checks them all."""
    quantized = fp8.quantize_e4m3(*inputs("normal", (4, 2), (130, 300), 64))
    fields = dict(vars(quantized))
    for name, change in changes.items():
        fields[name] = change(fields[name])
    with pytest.raises(error, match=said):
        fp8.attention_e4m3(fp8.Quantized(**fields))


VIEWS: dict[str, Callable[[], Tensor]] = {
    "whole": lambda: torch.empty(2, 3, 4, 32),
    "one of each": lambda: torch.empty(1, 2, 1, 32),
    "exchanged": lambda: torch.empty(2, 3, 4, 32).transpose(1, 2),
    "inside": lambda: torch.empty(5, 6)[1:4, 2:],
    "expanded": lambda: torch.empty(1, 3, 1, 32)[:, 1:2].expand(4, 1, 1, 32),
    "empty": lambda: torch.empty(0, 3),
    "empty part": lambda: torch.empty(7)[3:3],
    "recorded": lambda: torch.empty(4, 8, dtype=torch.bfloat16, requires_grad=True)[:, 1:],
}


@pytest.mark.parametrize("view", VIEWS)
def test_the_extension_reads_memory_as_python_does(view: str) -> None:
    """Address, strides and storage are those that the checked way finds."""
    x = VIEWS[view]()
    assert tensor_memory._plain_memory(x) == tensor_memory._judged_memory("x", x)


def test_the_extension_leaves_other_tensors_to_python() -> None:
    """A number, a scalar, a subclass, a sparse tensor and one without its storage are not read."""
    kind = type("Kind", (Tensor,), {})
    others = [3, torch.empty(()), torch.empty(2).as_subclass(kind), torch.eye(2).to_sparse()]
    for other in (
        *others,
        resized(torch.ones(9)),
        torch.empty(2, device="meta"),
        torch._neg_view(torch.ones(2)),
    ):
        assert tensor_memory._plain_memory(other) is None


def test_nothing_is_recorded_without_grad_mode() -> None:
    """Under no_grad a parameter takes the short way, and nothing is recorded; else it is."""
    q, k, v = tensors()
    expected = attention(q, k, v)
    q.requires_grad_()
    short = torch_attention._plain_attention
    assert short(q, k, v, False, False, None, False).requires_grad
    with torch.no_grad():
        found = short(q, k, v, False, False, None, False)
    assert torch.equal(found, expected)
    assert not found.requires_grad
