"""Layer norm over the last dimension: (x - mean) / sqrt(variance + eps) * weight + bias."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from flashbench.case import Case
from flashbench.operations.operation import Inputs, Operation, Options, Sizes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

EPS = 1e-5


class LayerNorm(Operation):
    """call(x, weight, bias, eps=1e-5): x (rows, dim), weight and bias (dim,); the result is like
    x."""

    name = "layer-norm"
    sizes = ("rows", "dim")
    presets: Mapping[str, Sequence[str]] = {
        "tiny": ("rows=16,dim=64",),
        "headline": ("rows=4096,dim=4096",),
        "grid": ("rows=1,128,4096,32768,dim=1024,4096,8192",),
    }
    change_negates = True

    def flops(self, sizes: Sizes, options: Options) -> int:
        return 7 * sizes["rows"] * sizes["dim"]

    def elements(self, sizes: Sizes) -> int:
        return 2 * sizes["rows"] * sizes["dim"] + 2 * sizes["dim"]

    def inputs(self, case: Case, dtype: "torch.dtype", random: "torch.Generator") -> Inputs:
        import torch

        rows, dim = case.sizes["rows"], case.sizes["dim"]
        x = torch.randn(rows, dim, generator=random, device=case.device)
        x[-1] *= EPS**0.5  # where eps counts
        weight, bias = torch.randn(2, dim, generator=random, device=case.device).to(dtype)
        return Inputs((x.to(dtype), weight.clone(), bias.clone()), {"eps": EPS})

    def eager(self) -> "Callable[..., Tensor]":
        from torch.nn.functional import layer_norm

        def call(x: "Tensor", weight: "Tensor", bias: "Tensor", eps: float) -> "Tensor":
            return layer_norm(x, weight.shape, weight, bias, eps)

        return call

    def truth(self, case: Case, inputs: Inputs, rows: "Tensor | None" = None) -> "Tensor":
        x, weight, bias = (tensor.double() for tensor in inputs.tensors)
        x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight + bias

    def change(self, tensors: "Sequence[Tensor]") -> None:
        """weight and bias change their signs, which negates the result."""
        tensors[1].data.neg_()
        tensors[2].data.neg_()
