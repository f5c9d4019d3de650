"""The short way of calls that torch records, and the layouts of what they make."""

from typing import Any

import pytest
import torch
from layout_rule import LAYOUTS, require_layout
from recorded_ways import assert_same, both_passes, only_python, only_short, recorded
from torch import Tensor, library
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from flashbench import attention
from flashbench.kernels import torch_attention, torch_operators


def tensors(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """q, k, v and dout of grouped heads."""
    generator = torch.Generator().manual_seed(5)
    shapes = (2, 4, 30, 32), (2, 2, 40, 32), (2, 2, 40, 32), (2, 4, 30, 32)
    return [torch.randn(x, generator=generator).to(dtype) for x in shapes]


WAYS = pytest.mark.parametrize("way", [only_short, only_python], ids=["short", "python"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [None, 0.3, -1.0])
def test_both_ways_give_the_same_bits(dtype: torch.dtype, scale: float | None) -> None:
    """Output and gradients of the short way have the bits of the way through Python."""
    inputs = tensors(dtype)
    with only_python():
        expected = both_passes(*inputs, scale=scale)
    with only_short():
        assert_same(both_passes(*inputs, scale=scale), expected)


@WAYS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_are_laid_out_as_inputs(layout: str, way: Any) -> None:
    """The output has q's order of dimensions, each gradient that of its input, and dout may have
    any layout; bits do not depend on it. The same without gradients."""
    inputs = tensors()
    expected = both_passes(*inputs)
    view = LAYOUTS[layout][0]
    with way():
        found = both_passes(*map(view, inputs))
        unrecorded = attention(*map(view, inputs[:3]), is_causal=True, enable_gqa=True)  # type: ignore[arg-type]
    assert_same([*found, unrecorded], [*expected, expected[0]])
    for result in (*found, unrecorded):
        require_layout(result, layout)


def test_each_gradient_has_the_layout_of_its_input() -> None:
    """Also where q, k and v have different ones."""
    inputs = tensors()
    expected = both_passes(*inputs)
    names = ["projected", "contiguous", "length first"]
    views = [LAYOUTS[name][0](x) for name, x in zip(names, inputs, strict=False)]
    found = both_passes(*views, inputs[3])
    assert_same(found, expected)
    for result, name in zip(found, ["projected", *names], strict=True):
        require_layout(result, name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operators_promise_the_layouts_that_they_make(layout: str) -> None:
    """Strides of fake tensors are those of real ones: graphs are compiled for them."""
    q, k, v, dout = (LAYOUTS[layout][0](x) for x in tensors())
    scoring = True, False, None
    library.opcheck(torch_operators.operator, (*recorded(q, k, v), True, True, *scoring))
    out, lse = torch_operators.operator(q, k, v, True, True, *scoring)
    require_layout(out, layout)
    arguments = q, k, v, out, lse, dout, *scoring, (True, True, True)
    library.opcheck(torch_operators.backward_operator, arguments)
    for gradient in torch_operators.backward_operator(*arguments):
        require_layout(gradient, layout)


def test_a_projections_gradient_is_a_view() -> None:
    """Nothing is copied between attention and the projections around it."""
    projections = [torch.randn(2, 30, 4 * 32, requires_grad=True) for _ in range(3)]
    seen = []
    heads = [x.view(2, 30, 4, 32).transpose(1, 2) for x in projections]
    for x in heads:
        x.register_hook(lambda gradient: seen.append(gradient.data_ptr()))
    out = attention(*heads)  # type: ignore[arg-type]
    merged = out.transpose(1, 2).reshape(2, 30, 4 * 32)
    assert merged.data_ptr() == out.data_ptr()
    merged.square().sum().backward()
    assert sorted(x.grad.data_ptr() for x in projections if x.grad is not None) == sorted(seen)


def test_a_gradient_of_stride_zero() -> None:
    """That of a sum is one number expanded."""
    q, k, v, dout = tensors()
    with only_short():
        found = both_passes(q, k, v, torch.ones(()).expand_as(dout))
    assert_same(found, both_passes(q, k, v, torch.ones_like(dout)))


def test_only_wanted_gradients_are_made() -> None:
    """An input that requires no gradient gets none, on the short way too."""
    *inputs, dout = tensors()
    expected = both_passes(*inputs, dout)
    for wanted in range(1, 8):
        given = [x.detach().requires_grad_(bool(wanted >> i & 1)) for i, x in enumerate(inputs)]
        with only_short():
            attention(*given, is_causal=True, enable_gqa=True).backward(dout)  # type: ignore[arg-type]
        for x, right in zip(given, expected[1:], strict=True):
            assert torch.equal(x.grad, right) if x.requires_grad else x.grad is None


def test_under_autocast_a_plain_call_goes_the_short_way() -> None:
    """What is cast, or has the dtype already, is plain."""
    *inputs, dout = tensors()
    expected = both_passes(*(x.bfloat16() for x in inputs), dout.bfloat16())
    for dtype in (torch.float32, torch.bfloat16):
        given = recorded(*(x.to(dtype) for x in inputs))
        with torch.autocast("cpu", torch.bfloat16), only_short():
            out = attention(*given, is_causal=True, enable_gqa=True)  # type: ignore[arg-type]
            assert torch.equal(out, expected[0])
            found = torch.autograd.grad(out, given, dout.bfloat16())
        assert_same(found, [x.to(dtype) for x in expected[1:]])


def test_hooks_on_saved_tensors_are_called() -> None:
    """What they give back is used: equal tensors, in other memory and strides."""
    inputs = tensors()
    expected = both_passes(*inputs)
    packed = []
    with saved_tensors_hooks(lambda x: packed.append(x) or x.clone(), lambda x: x.clone()):  # type: ignore[func-returns-value]
        assert_same(both_passes(*inputs), expected)
    assert len(packed) == 5
    with save_on_cpu():
        assert_same(both_passes(*inputs), expected)
    strange = lambda x: x if x.dim() == 3 else LAYOUTS["dim outside"][0](x)  # noqa: E731
    with saved_tensors_hooks(lambda x: x, strange):
        assert_same(both_passes(*inputs), expected)


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        (lambda x: x[:, :, :3].contiguous(), r"gave back .*, 3, 32\) on cpu; .* kept .*, 30, 32\)"),
        (lambda x: x[:, :, :3].contiguous() if x.dim() == 3 else x, "gave back .*; .* kept"),
        (lambda x: x.double(), "q has dtype torch.float64"),
        (lambda x: x.mT.contiguous().mT if x.dim() == 3 else x, "strides of the log-sum-exp"),
        (lambda x: x.to("meta"), "q is on meta"),
    ],
)
def test_hooks_that_change_saved_tensors_are_refused(hook: Any, said: str) -> None:
    """Kernels read no memory by another tensor's shape."""
    with (
        saved_tensors_hooks(lambda x: x, hook),
        pytest.raises((TypeError, ValueError), match=said) as refused,
    ):
        both_passes(*tensors())
    assert "\n" not in str(refused.value)


def test_an_output_changed_in_place_is_noticed() -> None:
    """The output is kept: the change is refused in the backward, and allowed without one."""
    *inputs, dout = tensors()
    out = attention(*recorded(*inputs), is_causal=True, enable_gqa=True)  # type: ignore[arg-type]
    out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward(dout)


@WAYS
def test_inference_mode_records_nothing(way: Any) -> None:
    """Whatever is enabled in it, as with SDPA."""
    *inputs, _ = tensors()
    with torch.inference_mode(), torch.enable_grad(), way():
        out = attention(*recorded(*inputs), is_causal=True, enable_gqa=True)  # type: ignore[arg-type]
    assert not out.requires_grad
    assert torch.equal(out, attention(*inputs, is_causal=True, enable_gqa=True))  # type: ignore[arg-type]


class Watching(TorchDispatchMode):
    """Notes the operations that torch dispatches."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


def test_a_mode_sees_the_gradients_made() -> None:
    """A backward under a dispatch mode takes the way that checks what the mode made."""
    *inputs, dout = tensors()
    given = recorded(*inputs)
    out = attention(*given, is_causal=True, enable_gqa=True)  # type: ignore[arg-type]
    with Watching() as mode:
        found = torch.autograd.grad(out, given, dout)
    assert_same(found, both_passes(*inputs, dout)[1:])
    assert sum("empty_like" in name for name in mode.seen) == 3


def test_a_default_device_costs_no_way_through_python() -> None:
    """A mode of torch's functions, which torch.set_default_device is, sees nothing inside."""
    inputs = tensors()
    expected = both_passes(*inputs)
    torch.set_default_device("meta")
    try:
        with only_short():
            assert_same(both_passes(*inputs), expected)
    finally:
        torch.set_default_device(None)


def test_a_gradient_changed_by_a_function_of_torch_is_not_written() -> None:
    """Something else than asked for in the place of a gradient is left to Python."""
    inputs = tensors()
    expected = both_passes(*inputs)
    parts = torch_attention.PARTS_OF_TORCH
    bind = torch_attention._C.bind_torch
    try:
        bind(**parts | {"empty_like": lambda x, **_: torch.empty_like(x)[:, :, :1].expand_as(x)})
        assert_same(both_passes(*inputs), expected)
    finally:
        bind(**parts)
