"""A block with flashbench.attention under what torch offers to those who train and export."""

import copy
import io
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from flashbench import attention
from flashbench.kernels.torch_operators import operator


class Block(nn.Module):
    """Projections and causal attention of two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(64, 3 * 64), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (2, 32)).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        return self.out(attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


@pytest.fixture
def block() -> Block:
    """The same weights in every test."""
    torch.manual_seed(0)
    return Block()


@pytest.fixture
def x() -> Tensor:
    """Two sequences of 20."""
    return torch.randn(2, 20, 64, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """No graph of an earlier test, and none left."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def _gradients(block: Block, call: Callable[[Tensor], Tensor], x: Tensor) -> list[Tensor]:
    """Gradients of the mean square of call(x): of x, then of the block's parameters."""
    given = x.clone().requires_grad_()
    return list(torch.autograd.grad(_loss(call(given)), [given, *block.parameters()]))


def _loss(out: Tensor) -> Tensor:
    return out.float().square().mean()


def _assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_checkpoint_computes_again(
    compiled: bool, block: Block, x: Tensor, fresh_dynamo: None
) -> None:
    """What torch.utils.checkpoint computes again has the same bits, also under autocast."""

    def kept(x: Tensor) -> Tensor:
        return checkpoint(block, x, use_reentrant=False)  # type: ignore[no-any-return]

    call = torch.compile(kept, backend="aot_eager", fullgraph=True) if compiled else kept
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled):
            _assert_same(_gradients(block, call, x), _gradients(block, block, x))


def test_a_reentrant_checkpoint_computes_again(block: Block, x: Tensor) -> None:
    """use_reentrant=True, which fills .grad, gives the same bits."""
    _loss(checkpoint(block, x.clone().requires_grad_(), use_reentrant=True)).backward()
    found = [p.grad for p in block.parameters() if p.grad is not None]
    _assert_same(found, _gradients(block, block, x)[1:])


def test_copies_learn_alike(block: Block, x: Tensor) -> None:
    """Copies of a module, also through a file, give the same bits."""
    file = io.BytesIO()
    torch.save(block, file)
    file.seek(0)
    for other in (copy.deepcopy(block), torch.load(file, weights_only=False)):
        _assert_same(_gradients(other, other, x), _gradients(block, block, x))


def test_a_scaled_loss_learns(block: Block, x: Tensor) -> None:
    """torch.amp.GradScaler with autocast to fp16: the loss falls, no step is skipped."""
    optimiser = torch.optim.SGD(block.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    losses = []
    for _ in range(5):
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = _loss(block(x) - 1)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimiser)
        scaler.update()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert scaler.get_scale() == 2.0**10


def test_gradients_of_a_functional_call(block: Block, x: Tensor, fresh_dynamo: None) -> None:
    """torch.func.grad of functional_call is the gradient; compiled it is computed beside the graph,
    and refused by name where a graph must be whole."""

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return _loss(functional_call(block, parameters, (x,)))

    parameters = {name: p.detach() for name, p in block.named_parameters()}
    expected = _gradients(block, block, x)[1:]
    gradient = torch.func.grad(loss)
    _assert_same(list(gradient(parameters, x).values()), expected)
    compiled = torch.compile(gradient, backend="aot_eager")
    for found, right in zip(compiled(parameters, x).values(), expected, strict=True):
        torch.testing.assert_close(found, right)
    torch.compiler.reset()
    whole = torch.compile(gradient, backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match=r"takes no transforms of torch\.func"):
        whole(parameters, x)
    with pytest.raises(ValueError, match=r"takes no transforms of torch\.func"):
        make_fx(gradient)(parameters, x)


def _attended(q: Tensor) -> Tensor:
    return attention(q, q, q)


def _tangent(q: Tensor) -> Tensor | None:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(_attended(forward_ad.make_dual(q, q))).tangent  # type: ignore[no-any-return]


@pytest.mark.parametrize("whole", [True, False], ids=["fullgraph", "graph breaks"])
def test_transforms_that_begin_with_attention(whole: bool, fresh_dynamo: None) -> None:
    """Compiled, none gives wrong numbers: each is refused by name, and torch.func.grad, outside of
    whole graphs, computed beside the graph."""
    q = torch.randn(2, 1, 4, 32, generator=torch.Generator().manual_seed(2))
    gradient = torch.func.grad(lambda q: _attended(q).sum())
    refused: list[Callable[[Tensor], object]] = [
        lambda q: torch.func.jvp(_attended, (q,), (q,))[1],
        torch.func.jacfwd(_attended),
        torch.func.vmap(_attended),
        torch.func.vmap(gradient),
        _tangent,
    ]
    for call in (*refused, gradient) if whole else refused:
        torch.compiler.reset()
        names = r"takes no (transforms|tangents)" if whole else r"tangent|takes no"
        with pytest.raises(Exception, match=names):
            torch.compile(call, backend="aot_eager", fullgraph=whole)(q)
    if not whole:
        torch.testing.assert_close(torch.compile(gradient, backend="aot_eager")(q), gradient(q))


def test_transforms_under_a_count(x: Tensor) -> None:
    """FlopCounterMode sees the operator, which follows none of them either."""
    q = x.unflatten(-1, (2, 32)).transpose(1, 2)
    for transform in (torch.func.grad(lambda q: _attended(q).sum()), torch.func.vmap(_attended)):
        with (
            FlopCounterMode(display=False),
            pytest.raises(ValueError, match="under FlopCounterMode takes no transforms"),
        ):
            transform(q)


def test_an_exported_block(block: Block, x: Tensor) -> None:
    """torch.export keeps attention as one operator, for other lengths, and through a file."""
    any_size = torch.export.Dim.AUTO
    exported = torch.export.export(block, (x,), dynamic_shapes=({0: any_size, 1: any_size},))
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    longer = torch.cat([x, x, x], dim=1)
    for program in (exported, torch.export.load(file)):
        assert str(program.graph).count("torch.ops.flashbench.attention.default") == 1
        assert torch.equal(program.module()(x), block(x))
        assert torch.equal(program.module()(longer), block(longer))


def test_programs_made_without_gradients_learn(block: Block, x: Tensor) -> None:
    """torch.export under no_grad or of frozen weights, and make_fx, keep no log-sum-exp; the
    gradients of what they made are right all the same."""
    with torch.no_grad():
        program = torch.export.export(block, (x,)).module()
    named = dict(program.named_parameters())
    given = x.clone().requires_grad_()
    of = [given, *(named[name] for name, _ in block.named_parameters())]
    found = torch.autograd.grad(_loss(program(given)), of)
    _assert_same(list(found), _gradients(block, block, x))

    frozen = copy.deepcopy(block).requires_grad_(False)
    frozen_program = torch.export.export(frozen, (x,)).module()
    (of_x,) = torch.autograd.grad(_loss(frozen_program(given)), given)
    assert torch.equal(of_x, found[0])

    q = x.unflatten(-1, (2, 32)).transpose(1, 2)
    trace = make_fx(_attended)(q)
    wanted, expected = q.clone().requires_grad_(), q.clone().requires_grad_()
    trace(wanted).square().sum().backward()
    _attended(expected).square().sum().backward()
    assert wanted.grad is not None
    assert expected.grad is not None
    assert torch.equal(wanted.grad, expected.grad)


def test_the_operators_fakes_are_like_them(x: Tensor) -> None:
    """torch.library.opcheck, whatever the default dtype."""
    q = x.unflatten(-1, (2, 32)).transpose(1, 2)
    torch.set_default_dtype(torch.float64)
    try:
        for tensor in (q, q.clone().requires_grad_()):
            arguments = (tensor, q, q, False, tensor.requires_grad, True, False, None)
            torch.library.opcheck(operator, arguments)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_trace_of_gradients(x: Tensor) -> None:
    """make_fx of gradients holds both operators and computes the same for other numbers."""

    def gradient(x: Tensor) -> Tensor:
        q = x.unflatten(-1, (2, 32)).transpose(1, 2)
        return torch.autograd.grad(attention(q, q, q).square().sum(), x)[0]

    given, other = x.clone().requires_grad_(), (x + 1).requires_grad_()
    trace = make_fx(gradient)(given)
    assert "flashbench.attention_backward" in trace.code
    assert torch.equal(trace(other), gradient(other))


def test_fake_tensors_have_shapes() -> None:
    """In a FakeTensorMode a block and its gradients run without numbers."""
    with FakeTensorMode():
        x = torch.randn(2, 20, 64, requires_grad=True)
        out = Block()(x)
        assert out.shape == x.shape
        assert torch.autograd.grad(out.sum(), x)[0].shape == x.shape
