"""flashbench.attention as torch differentiates it: modes, refusals and compiled graphs."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from backward_truth import of_sdpa, ours
from torch import Tensor, library
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from flashbench import attention, quantize_e4m3
from flashbench.kernels import torch_operators

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def inputs(request: pytest.FixtureRequest) -> Inputs:
    """q, k, v that require gradients, and dout; grouped heads."""
    generator = torch.Generator().manual_seed(3)
    shapes = (2, 4, 30, 32), (2, 2, 40, 32), (2, 2, 40, 32), (2, 4, 30, 32)
    q, k, v, dout = (torch.randn(x, generator=generator).to(request.param) for x in shapes)
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), dout


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(q, k, v, is_causal=True, enable_gqa=True)


def _assert_same(found: Any, expected: Any) -> None:
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


def test_a_layer_learns_as_with_sdpa() -> None:
    """Gradients reach the parameters before the attention, through the layout of models."""
    torch.manual_seed(1)
    projection = torch.nn.Linear(64, 3 * 64)
    x = torch.randn(2, 20, 64)

    def weight_gradient(attend: Any) -> Tensor:
        q, k, v = (y.unflatten(-1, (2, 32)).transpose(1, 2) for y in projection(x).chunk(3, -1))
        out = attend(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return torch.autograd.grad(out.square().sum(), projection.weight)[0]

    expected = weight_gradient(scaled_dot_product_attention)
    torch.testing.assert_close(weight_gradient(attention), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck(causal: bool) -> None:
    """Numerical derivatives in fp32 agree with the gradients, also of undefined ones."""
    generator = torch.Generator().manual_seed(2)
    q, k, v = (
        torch.randn(1, heads, length, 32, generator=generator).requires_grad_()
        for heads, length in ((2, 3), (1, 4), (1, 4))
    )

    def scored(*qkv: Tensor) -> Tensor:
        return attention(*qkv, is_causal=causal, enable_gqa=True, scale=0.2)

    with pytest.warns(UserWarning, match="not a double precision"):
        assert torch.autograd.gradcheck(scored, (q, k, v), eps=0.03, atol=2e-3, rtol=2e-2)


def test_parameters_and_three_dimensions() -> None:
    """A parameter gets its gradient; the batch dimension may be left out."""
    q = torch.nn.Parameter(torch.randn(4, 20, 32))
    attention(q, q, q).sum().backward()
    x = q.detach()[None]
    assert q.grad is not None
    torch.testing.assert_close(q.grad, sum(ours(x, x, x, torch.ones_like(x), False))[0])


@pytest.mark.parametrize("keys", [1, 3, 8, 40])
def test_the_values_do_not_depend_on_gradients(inputs: Inputs, keys: int) -> None:
    """The output has the same bits with and without gradients, and requires them only if asked."""
    q, k, v, _ = inputs
    k, v = k[:, :, :keys], v[:, :, :keys]
    with torch.no_grad():
        plain = _attend(q, k, v)
    with torch.inference_mode():
        inferred = _attend(q, k, v)
    recorded = _attend(q, k, v)
    assert recorded.requires_grad
    assert not plain.requires_grad
    assert not inferred.requires_grad
    assert torch.equal(recorded, plain)
    assert torch.equal(recorded, inferred)


def test_gradients_of_some_inputs(inputs: Inputs) -> None:
    """An input that requires no gradient gets none, and the others get the same."""
    q, k, v, dout = inputs
    expected = ours(q, k, v, dout, True)
    for i in range(3):
        only = [x.detach() for x in (q, k, v)]
        only[i].requires_grad_()
        _attend(*only).backward(dout)
        for j, x in enumerate(only):
            assert (x.grad is None) == (i != j)
        assert torch.equal(only[i].grad, expected[i])  # type: ignore[arg-type]


def test_a_changed_input_is_noticed(inputs: Inputs) -> None:
    """The backward needs what the forward saw: torch refuses after a change in place."""
    q, k, v, dout = inputs
    early = q * 1
    out = _attend(early, k, v)
    early.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward(dout)


def test_a_graph_may_be_kept(inputs: Inputs) -> None:
    """A second backward of the same graph gives the same bits."""
    q, k, v, dout = inputs
    out = _attend(q, k, v)
    first = torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)
    _assert_same(torch.autograd.grad(out, (q, k, v), dout), first)


def test_deterministic_algorithms(inputs: Inputs) -> None:
    """The deterministic mode is respected: the same bits in two runs."""
    q, k, v, dout = inputs
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        _assert_same(ours(q, k, v, dout, True), ours(q, k, v, dout, True))
    finally:
        torch.use_deterministic_algorithms(before)


def test_no_second_derivative(inputs: Inputs) -> None:
    """Differentiating the gradients is refused by name, computing them for it is not."""
    q, k, v, dout = inputs
    found = torch.autograd.grad(_attend(q, k, v), (q, k, v), dout, create_graph=True)
    _assert_same(found, ours(q, k, v, dout, True))
    with pytest.raises(RuntimeError, match=r"flashbench\.attention has no second derivative"):
        torch.autograd.grad(found[0].sum(), q)
    out = torch_operators.operator(q, k, v, True, True, True, False, None)[0]
    found = torch.autograd.grad(out, (q, k, v), dout, create_graph=True)
    with pytest.raises(RuntimeError, match=r"flashbench\.attention has no second derivative"):
        torch.autograd.grad(found[1].sum(), k)


def test_functional_gradients(inputs: Inputs) -> None:
    """torch.func.grad is the gradient; batches of tensors or of gradients are refused by name."""
    out, douts = _attend(*inputs[:3]), torch.stack([inputs[3]] * 2)
    with pytest.raises(ValueError, match=r"the output's gradient .* takes no traced or batched"):
        torch.autograd.grad(out, inputs[0], douts, is_grads_batched=True)
    q, k, v, _ = (x.detach() for x in inputs)
    found = torch.func.grad(lambda q: _attend(q, k, v).sum())(q)
    assert torch.equal(found, ours(q, k, v, torch.ones_like(q), True)[0])
    with pytest.raises(ValueError, match="traced or batched"):
        torch.func.vmap(lambda q: _attend(q, k, v))(q[None])
    with pytest.raises(ValueError, match=r"flashbench\.attention takes no batched tensors"):
        torch.func.jacrev(lambda q: _attend(q, k, v))(q)
    with pytest.raises(ValueError, match=r"flashbench\.attention has no forward derivative"):
        torch.func.hessian(lambda q: _attend(q, k, v).sum())(q)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_autocast(dtype: torch.dtype, fresh_dynamo: None) -> None:
    """Under torch.autocast, inputs are cast as SDPA casts them, eager and compiled; gradients have
    the dtypes of the inputs. Elsewhere nothing is cast."""
    generator = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(1, 2, 20, 32, generator=generator) for _ in range(3))
    inputs = q.requires_grad_(), k.half().requires_grad_(), v.bfloat16().requires_grad_()

    def gradients(attend: Any) -> tuple[Tensor, ...]:
        with torch.autocast("cpu", dtype):
            out = attend(*inputs, is_causal=True)
        assert out.dtype == dtype
        return out, *torch.autograd.grad(out.float().square().sum(), inputs)

    found = gradients(attention)
    _assert_same(gradients(torch.compile(attention, backend="aot_eager", fullgraph=True)), found)
    _assert_same(found[:1], [attention(*(x.to(dtype) for x in inputs), is_causal=True)])
    for x, gradient, right in zip(
        inputs, found[1:], gradients(scaled_dot_product_attention)[1:], strict=True
    ):
        assert gradient.dtype == x.dtype
        torch.testing.assert_close(gradient, right, rtol=0.05, atol=0.05)
    with torch.no_grad(), torch.autocast("cpu", dtype):
        assert torch.equal(attention(*inputs, is_causal=True), found[0])
    assert attention(q, q, q).dtype == torch.float32


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """No graph of an earlier test, and none left."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_a_compiled_function(inputs: Inputs, fresh_dynamo: None) -> None:
    """One graph without a break gives eager's bits, forward and backward, with and without grad."""
    q, k, v, dout = inputs

    def block(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q + 1, k, v, is_causal=True, enable_gqa=True, scale=0.3) * 2

    compiled = torch.compile(block, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        assert torch.equal(compiled(q, k, v), block(q, k, v))
    out, expected = compiled(q, k, v), block(q, k, v)
    assert torch.equal(out, expected)
    right = torch.autograd.grad(expected, (q, k, v), dout)
    _assert_same(torch.autograd.grad(out, (q, k, v), dout), right)
    out = compiled(q.detach(), k, v.detach())
    _assert_same(torch.autograd.grad(out, k, dout), right[1:2])


def test_compiling_refuses_by_name(fresh_dynamo: None) -> None:
    """What is not supported is named while compiling, before anything runs."""
    compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
    q = torch.randn(1, 2, 8, 24)
    with pytest.raises(Exception, match="q has head_dim 24"):
        compiled(q, q, q)


def test_the_operators_keep_torchs_contract(inputs: Inputs) -> None:
    """torch's own check of custom operators: schema, fake tensors, autograd, dynamic shapes."""
    q, k, v, dout = inputs
    library.opcheck(torch_operators.operator, (q, k, v, True, True, True, True, 0.2))
    with torch.no_grad():
        out, lse = torch_operators.operator(q, k, v, True, True, True, False, None)
    tensors = (x.detach() for x in (q, k, v, out, lse, dout))
    arguments = (*tensors, True, False, None, (True, False, True))
    library.opcheck(torch_operators.backward_operator, arguments)


def test_operations_are_counted_as_of_sdpa(inputs: Inputs, fresh_dynamo: None) -> None:
    """torch's counter of operations gives attention, eager or compiled, and its gradients torch's
    numbers for SDPA: a mask takes none away, and gradients compute the scores again."""
    q, k, v, dout = inputs

    def counts(attend: Any) -> list[int]:
        with FlopCounterMode(display=False) as counter:
            out = attend(q, k, v, is_causal=True, enable_gqa=True)
            forward = counter.get_total_flops()
            torch.autograd.grad(out, (q, k, v), dout)
        return [forward, counter.get_total_flops() - forward]

    forward = 4 * 2 * 4 * 30 * 40 * 32
    assert counts(attention) == [forward, forward * 5 // 2]
    assert counts(torch.compile(attention, backend="aot_eager")) == counts(attention)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert counter.get_total_flops() == forward
    with FlopCounterMode(display=False) as counter:
        attention(q[0], k[0], v[0], enable_gqa=True)
    assert counter.get_total_flops() == forward // 2


def test_fp8_has_no_gradients() -> None:
    """Quantising a tensor that requires a gradient is refused by name."""
    q = torch.randn(1, 2, 8, 32, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="k requires grad and attention of fp8"):
        quantize_e4m3(q, q.clone().requires_grad_(), q)


def test_means_what_sdpa_means(inputs: Inputs) -> None:
    """Near SDPA's gradients."""
    q, k, v, dout = (x.float() for x in inputs)
    for found, expected in zip(
        ours(q, k, v, dout, True), of_sdpa(q, k, v, dout, True), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
