"""Every operation: right candidates pass, and each way to look fast without the work is caught.

A fault changes what a call returns. Of the operations with gradients, it changes the forward and
the gradients of a candidate.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import gelu

from flashbench import operations
from flashbench.case import DTYPES, Case, DtypeName
from flashbench.measuring.checks import WrongError, check_candidate
from flashbench.measuring.problem import Problem
from flashbench.operations import Operation
from flashbench.operations.of_project import imported

Call = Callable[..., Any]
Out = TypeVar("Out", Tensor, tuple[Tensor, ...])
OWN = [imported(f"operations.fused:{name}", "") for name in ("AddNorm", "GemmGelu")]
OPERATIONS = {one.name: one for one in (*operations.BUILT_IN.values(), *OWN)}
EVERY = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


@pytest.fixture(autouse=True, scope="module")
def _known() -> Iterator[None]:
    """Operations of a project are found by their names."""
    before = dict(operations.of_projects)
    operations.of_projects |= {one.name: one for one in OWN}
    yield
    operations.of_projects.clear()
    operations.of_projects.update(before)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Threads would wait for each other on these small cases."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@st.composite
def cases(draw: st.DrawFn, operation: Operation) -> Case:
    """Small cases of an operation."""
    dtype, options = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(operation.options))
    if operation.name.startswith("attention"):
        return operation.case(
            draw(st.sampled_from(operation.small_shapes()[:4])), dtype, "cpu", options
        )
    sizes = {name: draw(st.integers(8, 64)) for name in operation.sizes}
    return operation.case(sizes, dtype, "cpu", options)


def checked(operation: Operation, case: Case, make: Callable[[Call], Call], seed: int) -> None:
    """Check a candidate that `make` builds from torch's own; WrongError if it is wrong."""
    baseline = operation.load_baseline("").call
    candidate = make(baseline)
    if operation.name.startswith("attention-"):
        candidate = differentiable(make, baseline)
    with torch.no_grad():
        problem = Problem(case, seed, full_check=True)
        check_candidate(problem, problem.bind(candidate), lambda: None)


def differentiable(make: Callable[[Call], Call], attention: Call) -> Call:
    """Attention with a forward and a backward that `make` builds from torch's own."""

    def gradients(q: Tensor, k: Tensor, v: Tensor, dout: Tensor, **words: Any) -> Any:
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in (q, k, v)]
            return torch.autograd.grad(attention(*leaves, **words), leaves, dout)

    made_forward, made_gradients = make(attention), make(gradients)

    def call(*qkv: Tensor, **words: Any) -> Any:
        class Made(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *qkv: Tensor) -> Any:
                ctx.save_for_backward(*qkv)
                return made_forward(*qkv, **words)

            @staticmethod
            def backward(ctx: Any, dout: Tensor) -> Any:
                return made_gradients(*ctx.saved_tensors, dout, **words)

        return Made.apply(*qkv)  # type: ignore[no-untyped-call]

    return call


def each(change: Callable[[Tensor], Tensor], out: Out) -> Out:
    """Change the result, or each of several."""
    return tuple(map(change, out)) if isinstance(out, tuple) else change(out)


@EVERY
@settings(max_examples=10, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_the_baseline_is_right(operation: Operation, data: st.DataObject, seed: int) -> None:
    """Torch's own result passes the operation's own check, for all sizes."""
    checked(operation, data.draw(cases(operation)), lambda call: call, seed)


def like(call: Call, results: Callable[[tuple[Tensor, ...]], Any]) -> Call:
    """A call that returns the first of `results(inputs)`, or as many as the real one."""

    def answer(*inputs: Tensor, **words: Any) -> Any:
        out, found = call(*inputs, **words), results(inputs)
        return tuple(found[: len(out)]) if isinstance(out, tuple) else found[0]

    return answer


def zeros(call: Call) -> Call:
    """Computes nothing."""
    return lambda *inputs, **words: each(torch.zeros_like, call(*inputs, **words))


def an_input(call: Call) -> Call:
    """Returns what it was given."""
    return like(call, lambda inputs: inputs)


def copied_input(call: Call) -> Call:
    """Returns a copy of what it was given."""
    return like(call, lambda inputs: [x.clone() for x in inputs])


def stale_memory(call: Call) -> Call:
    """Returns new memory as it is."""
    return lambda *inputs, **words: each(torch.empty_like, call(*inputs, **words))


def cached(call: Call) -> Call:
    """Computes once for each place in memory, and then copies that answer."""
    known: dict[int, Any] = {}

    def answer(*inputs: Tensor, **words: Any) -> Any:
        place = sum(x.data_ptr() for x in inputs)
        if place not in known:
            known[place] = call(*inputs, **words)
        return each(torch.clone, known[place])

    return answer


def same_memory(call: Call) -> Call:
    """Writes every result to one place."""
    kept: list[Tensor] = []

    def answer(*inputs: Tensor, **words: Any) -> Any:
        out = call(*inputs, **words)
        results = out if isinstance(out, tuple) else (out,)
        kept[:] = kept or map(torch.empty_like, results)
        same = tuple(place.copy_(x) for place, x in zip(kept, results, strict=True))
        return same if isinstance(out, tuple) else same[0]

    return answer


def lower_precision(call: Call) -> Call:
    """Computes in a narrower type and stores in the one asked for."""

    def coarse(x: Tensor) -> Tensor:
        largest = x.abs().max()
        return ((x / largest).to(torch.float8_e5m2).to(x.dtype) * largest).to(x.dtype)

    def answer(*inputs: Tensor, **words: Any) -> Any:
        if inputs[0].dtype == torch.float32:
            return each(Tensor.float, call(*(x.bfloat16() for x in inputs), **words))
        return each(coarse, call(*inputs, **words))

    return answer


def half_the_rows(call: Call) -> Call:
    """Leaves out the last rows."""

    def half(x: Tensor) -> Tensor:
        x[..., x.shape[-2] // 2 :, :] = 0
        return x

    return lambda *inputs, **words: each(half, call(*inputs, **words))


def changes_its_inputs(call: Call) -> Call:
    """Leaves its inputs other than it found them."""

    def answer(*inputs: Tensor, **words: Any) -> Any:
        out = call(*inputs, **words)
        inputs[0].zero_()
        return out

    return answer


FAULTS = (
    zeros,
    an_input,
    copied_input,
    stale_memory,
    cached,
    same_memory,
    lower_precision,
    half_the_rows,
    changes_its_inputs,
)


@pytest.mark.parametrize("fault", FAULTS)
@EVERY
@settings(max_examples=5, deadline=None)
@given(data=st.data(), seed=st.integers(0, 99))
def test_a_fault_is_caught(
    operation: Operation, fault: Callable[[Call], Call], data: st.DataObject, seed: int
) -> None:
    """Whatever is computed, no fault passes for a right result."""
    with pytest.raises(WrongError):
        checked(operation, data.draw(cases(operation)), fault, seed)


def keeps_inputs(call: Call) -> Call:
    """Computes with inputs of its first call, of which it follows only the signs."""
    kept: list[Tensor] = []

    def answer(*inputs: Tensor, **words: Any) -> Any:
        kept[:] = kept or [x.abs() for x in inputs]
        return call(*map(torch.copysign, kept, inputs), **words)

    return answer


@pytest.mark.parametrize("name", [one.name for one in OPERATIONS.values() if one.reads_all])
def test_inputs_kept_from_before_are_caught(name: str) -> None:
    """A change of signs would not show them: weights that were packed once, say."""
    operation = OPERATIONS[name]
    for dtype in DTYPES:
        sizes = operation.preset("tiny")[0]
        case = operation.case(sizes, dtype, "cpu", operation.options[0])
        with pytest.raises(WrongError, match="after all inputs changed in place"):
            checked(operation, case, keeps_inputs, 0)


def _normed(total: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    return torch.nn.functional.rms_norm(total, weight.shape, weight, eps)


# What goes wrong in a fused kernel, in its own words.
FUSED: dict[str, tuple[str, Call]] = {
    "no weight": ("AddNorm", lambda x, r, w: (_normed(x + r, torch.ones_like(w)), x + r)),
    "no residual": ("AddNorm", lambda x, r, w: (_normed(x, w), x + r)),
    "residual of before": ("AddNorm", lambda x, r, w: (_normed(x + r, w), r.clone())),
    "residual in place": ("AddNorm", lambda x, r, w: (_normed(r.add_(x), w), r)),
    "no eps": ("AddNorm", lambda x, r, w: (_normed(x + r, w, 0.0), x + r)),
    "one result": ("AddNorm", lambda x, r, w: _normed(x + r, w)),
    "no bias": ("GemmGelu", lambda a, b, bias: gelu(a @ b)),
    "bias of another column": ("GemmGelu", lambda a, b, bias: gelu(a @ b + bias.roll(1))),
    "relu": ("GemmGelu", lambda a, b, bias: torch.relu(a @ b + bias)),
    "no epilogue in the last column": (
        "GemmGelu",
        lambda a, b, bias: torch.cat([gelu(a @ b + bias)[:, :-1], (a @ b + bias)[:, -1:]], dim=1),
    ),
    "short of one k": ("GemmGelu", lambda a, b, bias: gelu(a[:, 1:] @ b[1:] + bias)),
    "sums in bf16": (
        "GemmGelu",
        lambda a, b, bias: gelu(
            sum((a[:, i::4] @ b[i::4]).bfloat16() for i in range(4)).to(a.dtype) + bias
        ),
    ),
}


@pytest.mark.parametrize(
    ("fault", "dtype"),
    [one for one in itertools.product(FUSED, DTYPES) if one != ("sums in bf16", "bf16")],
)
def test_a_fused_kernel_gone_wrong_is_caught(fault: str, dtype: DtypeName) -> None:
    """A project's own operations find what is left out."""
    name, call = FUSED[fault]
    operation = OPERATIONS[f"operations.fused:{name}"]
    case = operation.case(operation.preset("tiny")[0], dtype, "cpu", operation.options[0])
    with pytest.raises(WrongError):
        checked(operation, case, lambda _: call, 0)
