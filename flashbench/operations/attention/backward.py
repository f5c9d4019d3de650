"""The gradients of attention: alone, with the forward outside the clock, or after the forward.

Candidates are those of attention, differentiable by torch's autograd.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from flashbench.case import Case, DtypeName
from flashbench.errors import InvalidInputError
from flashbench.operations.attention.operation import AttentionForward
from flashbench.operations.attention.shapes import GRADIENTS, PRESETS, Shape
from flashbench.operations.operation import Inputs, Operation, Options, Sizes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from flashbench.operations.operation import Output

    Forward = Callable[..., Output]

_NOT_DIFFERENTIABLE = (
    "the output requires no gradient: the candidate is not differentiable; wrap its kernels in a "
    "torch.autograd.Function"
)


class AttentionBackward(AttentionForward):
    """q, k and v as in attention, dout of the output's shape; the results are dq, dk and dv.

    The forward runs outside the clock; timed is torch.autograd.grad(out, (q, k, v), dout).
    """

    name = "attention-backward"
    presets: Mapping[str, Sequence[str]] = dict.fromkeys(
        ("tiny", "small", "medium", "large", "headline", "grid"), ()
    )
    row_dimension = None  # every row has a part in dk and dv
    reads_all = False  # the forward is not timed
    results: tuple[str, ...] = ("dq", "dk", "dv")
    candidates_of = AttentionForward.name

    def parse(self, text: str) -> list[Sizes]:
        """Parse as attention does, with at least two queries and keys: a row that sees a single key
        gives it weight 1 whatever its score, so dq and dk would be pure rounding error."""
        (sizes,) = super().parse(text)
        if min(sizes["q_len"], sizes["k_len"]) < 2:
            raise InvalidInputError(
                f"invalid shape {text[:100]!r} of {self.name}: it needs 2 queries and 2 keys; a "
                "row that sees one key has a dq of 0, and no error of SDPA's to compare with"
            )
        return [sizes]

    def preset(self, name: str) -> list[Sizes]:
        if name not in self.presets:
            return Operation.preset(self, name)  # says which there are
        return [shape.sizes for shape in (GRADIENTS if name == "grid" else PRESETS[name])]

    def id(self, sizes: Sizes, dtype: DtypeName, device: str, options: Options) -> str:
        """Attention's id behind the operation's name."""
        return f"{self.name}-{super().id(sizes, dtype, device, options)}"

    def parse_id(self, text: str) -> Case:
        return super().parse_id(text.removeprefix(f"{self.name}-"))

    def flops(self, sizes: Sizes, options: Options) -> int:
        """Operations of five matrix products: q k^T, dout v^T, and those of dq, dk and dv."""
        return 10 * sizes["head_dim"] * self.exponentials(sizes, options)

    def elements(self, sizes: Sizes) -> int:
        """q, dout and dq; k, v, dk and dv."""
        s = Shape(**sizes)
        return s.batch * s.head_dim * (3 * s.heads * s.q_len + 4 * s.kv_heads * s.k_len)

    def in_words(self, case: Case) -> str:
        return f"{super().in_words(case)}, {self._title}"

    def shape_in_panel(self, case: Case) -> str:
        return super().shape_in_panel(case).removeprefix(f"{self.name}-")

    @property
    def _title(self) -> str:
        """`backward`, or `forward-backward`."""
        return self.name.removeprefix("attention-")

    def import_ahead(self) -> None:
        # torch.autograd.grad imports the first in its first call with given gradients.
        import torch.fx.experimental.symbolic_shapes  # noqa: F401

        import flashbench.operations.attention.truth_backward  # noqa: F401

        super().import_ahead()

    def inputs(self, case: Case, dtype: "torch.dtype", random: "torch.Generator") -> Inputs:
        import torch

        qkv = super().inputs(case, dtype, random)
        q = qkv.tensors[0]
        drawn = torch.randn(q.shape, generator=random, device=case.device)
        dout = torch.empty_like(q).copy_(drawn)  # in the layout of q
        return Inputs((*qkv.tensors, dout), qkv.keywords)

    def bind(self, call: "Forward", inputs: Inputs) -> "Callable[[], Output]":
        return _Backward(call, inputs)

    def truth(self, case: Case, inputs: Inputs, rows: "Tensor | None" = None) -> "Output":
        from flashbench.operations.attention.truth_backward import attention_backward

        mask = case.options["mask"]
        return attention_backward(
            *inputs.tensors, is_causal=mask != "full", bottom_right=mask == "bottom_right"
        )

    def change(self, tensors: "Sequence[Tensor]") -> None:
        """dout becomes -dout, which negates all gradients and needs no other forward."""
        tensors[3].data.neg_()


class AttentionForwardBackward(AttentionBackward):
    """The output and the gradients, with both inside the clock."""

    name = "attention-forward-backward"
    results = ("out", "dq", "dk", "dv")
    reads_all = True

    def flops(self, sizes: Sizes, options: Options) -> int:
        """Operations of the forward's two products and the backward's five, with q k^T in each."""
        return 14 * sizes["head_dim"] * self.exponentials(sizes, options)

    def elements(self, sizes: Sizes) -> int:
        """q, out, dout and dq; k, v, dk and dv."""
        s = Shape(**sizes)
        return 4 * s.batch * s.head_dim * (s.heads * s.q_len + s.kv_heads * s.k_len)

    def bind(self, call: "Forward", inputs: Inputs) -> "Callable[[], Output]":
        import torch

        leaves = _leaves(inputs)

        def both() -> "Output":
            with torch.enable_grad():
                out = _differentiable(call(*leaves, **inputs.keywords))
            return out.detach(), *_gradients(out, leaves, inputs.tensors[3])

        return both

    def truth(self, case: Case, inputs: Inputs, rows: "Tensor | None" = None) -> "Output":
        qkv = Inputs(inputs.tensors[:3], inputs.keywords)
        out, gradients = AttentionForward.truth(self, case, qkv), super().truth(case, inputs)
        return out, *gradients

    def change(self, tensors: "Sequence[Tensor]") -> None:
        """All become negative: the scores stay, and every result is negated."""
        for tensor in tensors:
            tensor.data.neg_()


class _Backward:
    """Calls the backward of one candidate. The forward is recorded once for each CUDA stream,
    because autograd runs a backward, and what ends at its leaves, on the stream of the forward."""

    def __init__(self, call: "Forward", inputs: Inputs) -> None:
        self._forward, self._inputs = call, inputs
        self._dout = inputs.tensors[3]
        self._recorded: dict[int, tuple[Tensor, list[Tensor]]] = {}

    def __call__(self) -> "Output":
        stream = self._stream()
        if stream not in self._recorded:
            self._recorded[stream] = self._record()
        return _gradients(*self._recorded[stream], self._dout)

    def _stream(self) -> int:
        if not self._dout.is_cuda:
            return 0
        import torch

        return torch._C._cuda_getCurrentRawStream(self._dout.device.index)

    def _record(self) -> "tuple[Tensor, list[Tensor]]":
        import torch

        leaves = _leaves(self._inputs)
        with torch.enable_grad():
            return _differentiable(self._forward(*leaves, **self._inputs.keywords)), leaves


def _leaves(inputs: Inputs) -> "list[Tensor]":
    """q, k and v on the same memory, to be differentiated for."""
    return [x.detach().requires_grad_() for x in inputs.tensors[:3]]


def _differentiable(out: "Output") -> "Tensor":
    """The candidate's output. Raises NotImplementedError for one without a gradient."""
    if not getattr(out, "requires_grad", False):
        raise NotImplementedError(_NOT_DIFFERENTIABLE)
    return out  # type: ignore[return-value]


def _gradients(out: "Tensor", leaves: "list[Tensor]", dout: "Tensor") -> "tuple[Tensor, ...]":
    """None, which the checks refuse, in place of one that the candidate does not give."""
    from torch.autograd import grad

    return grad(out, leaves, dout, retain_graph=True, allow_unused=True)
