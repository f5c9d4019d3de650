"""Norms over the last dimension: x / sqrt(mean(x^2) + eps) * weight, and with a mean and a bias."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from flashbench.case import Case
from flashbench.operations.operation import Inputs, Operation, Options, Sizes

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class _Norm(Operation):
    """call(x, *weights, eps): x (rows, dim), each weight (dim,); the result is like x."""

    sizes = ("rows", "dim")
    presets: Mapping[str, Sequence[str]] = {
        "tiny": ("rows=16,dim=64",),
        "headline": ("rows=4096,dim=4096",),
        "grid": ("rows=1,128,4096,32768,dim=1024,4096,8192",),
    }
    change_negates = True
    weights: ClassVar[int]
    eps: ClassVar[float]
    flops_an_element: ClassVar[int]

    def flops(self, sizes: Sizes, options: Options) -> int:
        return self.flops_an_element * sizes["rows"] * sizes["dim"]

    def elements(self, sizes: Sizes) -> int:
        return (2 * sizes["rows"] + self.weights) * sizes["dim"]

    def inputs(self, case: Case, dtype: "torch.dtype", random: "torch.Generator") -> Inputs:
        import torch

        rows, dim = case.sizes["rows"], case.sizes["dim"]
        x = torch.randn(rows, dim, generator=random, device=case.device)
        x[-1] *= self.eps**0.5  # where eps counts
        weights = torch.randn(self.weights, dim, generator=random, device=case.device).to(dtype)
        return Inputs((x.to(dtype), *(one.clone() for one in weights)), {"eps": self.eps})

    def change(self, tensors: "Sequence[Tensor]") -> None:
        """The weights change their signs, which negates the result."""
        for weight in tensors[1:]:
            weight.data.neg_()


class LayerNorm(_Norm):
    """call(x, weight, bias, eps=1e-5): x (rows, dim), weight and bias (dim,); the result is like
    x."""

    name = "layer-norm"
    weights, eps, flops_an_element = 2, 1e-5, 7

    def eager(self) -> "Callable[..., Tensor]":
        from torch.nn.functional import layer_norm

        def call(x: "Tensor", weight: "Tensor", bias: "Tensor", eps: float) -> "Tensor":
            return layer_norm(x, weight.shape, weight, bias, eps)

        return call

    def truth(self, case: Case, inputs: Inputs, rows: "Tensor | None" = None) -> "Tensor":
        x, weight, bias = (tensor.double() for tensor in inputs.tensors)
        x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * weight + bias


class RmsNorm(_Norm):
    """call(x, weight, eps=1e-6): x (rows, dim), weight (dim,); the result is like x."""

    name = "rms-norm"
    weights, eps, flops_an_element = 1, 1e-6, 4

    def eager(self) -> "Callable[..., Tensor]":
        from torch.nn.functional import rms_norm

        def call(x: "Tensor", weight: "Tensor", eps: float) -> "Tensor":
            return rms_norm(x, weight.shape, weight, eps)

        return call

    def truth(self, case: Case, inputs: Inputs, rows: "Tensor | None" = None) -> "Tensor":
        x, weight = (tensor.double() for tensor in inputs.tensors)
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * weight
