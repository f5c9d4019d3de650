"""Outputs and gradients on CUDA have their inputs' layouts, on the short way and by Python."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from layout_rule import LAYOUTS, require_layout
from masks import for_ours
from recorded_ways import assert_same, both_passes, only_python, only_short
from torch import Tensor, library
from torch.nn.functional import scaled_dot_product_attention

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from flashbench import attention
from flashbench.kernels import torch_attention, torch_operators
from flashbench.operations.attention.operation import Causal

if not torch_attention._C.cuda_dtypes():
    pytest.skip("flashbench._C was built without CUDA kernels", allow_module_level=True)

# What TMA reads, so that no copy is made before the gradients.
READABLE = [name for name in LAYOUTS if name != "dim outside"]


def tensors(head_dim: int, dtype: torch.dtype, q_len: int = 150) -> list[Tensor]:
    """q, k, v and dout of grouped heads."""
    generator = torch.Generator("cuda").manual_seed(6)
    shapes = [(2, 4, q_len, head_dim), *[(2, 2, 139, head_dim)] * 2, (2, 4, q_len, head_dim)]
    return [torch.randn(x, generator=generator, device="cuda").to(dtype) for x in shapes]


@pytest.fixture(autouse=True)
def deterministic() -> Any:
    """dq has the same bits in every run."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize("causal", [False, True, "bottom_right"])
@pytest.mark.parametrize("head_dim", [32, 64, 80, 128, 192, 256])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_are_laid_out_as_inputs(
    layout: str, head_dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """The rule and the bits of a CPU's test of this name; also for rows that see no key."""
    inputs, view = tensors(head_dim, dtype), LAYOUTS[layout][0]
    options = {"attn_mask": None, "is_causal": False} | for_ours(causal)
    with only_python():
        expected = both_passes(*inputs, **options)
        by_python = both_passes(*map(view, inputs), **options)
    found = both_passes(*map(view, inputs), **options)
    assert_same(by_python, expected)
    assert_same(found, expected)
    unrecorded = attention(*map(view, inputs[:3]), **options, enable_gqa=True)  # type: ignore[arg-type]
    for result in (*found, *by_python, unrecorded):
        require_layout(result, layout)


@pytest.mark.parametrize("layout", READABLE)
def test_layouts_of_models_go_the_short_way(layout: str, dtype: torch.dtype) -> None:
    """Nothing is left to Python where no row is unseeing and TMA can read all tensors."""
    inputs = [LAYOUTS[layout][0](x) for x in tensors(64, dtype)]
    with only_short():
        found = both_passes(*inputs)
    with only_python():
        assert_same(both_passes(*inputs), found)


@pytest.mark.parametrize("layout", ["contiguous", "projected", "fused", "length first"])
def test_layouts_are_those_of_sdpa(layout: str, dtype: torch.dtype) -> None:
    """What models see does not change with SDPA's place taken by ours."""
    *inputs, dout = (LAYOUTS[layout][0](x) for x in tensors(64, dtype, q_len=139))
    k, v = (x.repeat_interleave(2, dim=1) for x in inputs[1:])
    inputs = [LAYOUTS[layout][0](x) for x in (inputs[0], k, v)]

    def strides(attend: Callable[..., Tensor]) -> list[tuple[int, ...]]:
        qkv = [x.detach().requires_grad_() for x in inputs]
        out = attend(*qkv)
        return [x.stride() for x in (out, *torch.autograd.grad(out, qkv, dout))]

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        expected = strides(scaled_dot_product_attention)
    assert strides(attention) == expected


@pytest.mark.parametrize("scale", [-0.2, 0.0])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_where_torch_prepares(layout: str, scale: float, dtype: torch.dtype) -> None:
    """Scales that the kernels do not take keep the rule."""
    inputs, view = tensors(64, dtype), LAYOUTS[layout][0]
    found = both_passes(*map(view, inputs), scale=scale)
    assert_same(found, both_passes(*inputs, scale=scale))
    for result in found:
        require_layout(result, layout)


def test_a_gradient_of_stride_zero(dtype: torch.dtype) -> None:
    """That of a sum is copied for TMA."""
    q, k, v, dout = tensors(64, dtype)
    found = both_passes(q, k, v, torch.ones((), device="cuda", dtype=dtype).expand_as(dout))
    assert_same(found, both_passes(q, k, v, torch.ones_like(dout)))


def test_only_wanted_gradients_are_given(dtype: torch.dtype) -> None:
    """An input that requires no gradient gets none."""
    *inputs, dout = tensors(64, dtype)
    expected = both_passes(*inputs, dout)
    for wanted in range(1, 8):
        given = [x.detach().requires_grad_(bool(wanted >> i & 1)) for i, x in enumerate(inputs)]
        with only_short():
            attention(*given, is_causal=True, enable_gqa=True).backward(dout)  # type: ignore[arg-type]
        for x, right in zip(given, expected[1:], strict=True):
            assert torch.equal(x.grad, right) if x.requires_grad else x.grad is None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operators_promise_the_layouts_that_they_make(layout: str, dtype: torch.dtype) -> None:
    """Strides of fake tensors are those of real ones: graphs are compiled for them."""
    q, k, v, dout = (LAYOUTS[layout][0](x) for x in tensors(64, dtype))
    scoring, tests = (True, False, None), ("test_schema", "test_faketensor")
    arguments = q, k, v, True, True, *scoring
    library.opcheck(torch_operators.operator, arguments, test_utils=tests)
    kept = q, k, v, *torch_operators.operator(*arguments), dout
    arguments = *kept, *scoring, (True, True, True)
    library.opcheck(torch_operators.backward_operator, arguments, test_utils=tests)


def test_gradients_follow_the_forwards_stream(dtype: torch.dtype) -> None:
    """The backward is queued on the stream of its forward, after queued work."""
    *inputs, dout = tensors(64, dtype)
    expected = both_passes(*inputs, dout)
    late = torch.zeros_like(dout)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()), only_short():  # type: ignore[no-untyped-call]
        given = [x.detach().requires_grad_() for x in inputs]
        out = attention(*given, is_causal=True, enable_gqa=True)  # type: ignore[arg-type]
        torch.cuda._sleep(50_000_000)
        late.copy_(dout)  # on any other stream the zeros would be read
        found = torch.autograd.grad(out, given, late)
    torch.cuda.synchronize()
    assert_same(found, expected[1:])
