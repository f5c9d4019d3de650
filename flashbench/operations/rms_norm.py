"""RMS norm over the last dimension: x / sqrt(mean(x^2) + eps) * weight."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from flashbench.case import Case
from flashbench.operations.operation import Inputs, Operation, Options, Sizes

if TYPE_CHECKING:
    import torch
    from torch import Tensor

EPS = 1e-6


class RmsNorm(Operation):
    """call(x, weight, eps=1e-6): x (rows, dim), weight (dim,); the result is like x."""

    name = "rms-norm"
    sizes = ("rows", "dim")
    presets: Mapping[str, Sequence[str]] = {
        "tiny": ("rows=16,dim=64",),
        "headline": ("rows=4096,dim=4096",),
        "grid": ("rows=1,128,4096,32768,dim=1024,4096,8192",),
    }
    change_negates = True

    def flops(self, sizes: Sizes, options: Options) -> int:
        return 4 * sizes["rows"] * sizes["dim"]

    def elements(self, sizes: Sizes) -> int:
        return 2 * sizes["rows"] * sizes["dim"] + sizes["dim"]

    def inputs(self, case: Case, dtype: "torch.dtype", random: "torch.Generator") -> Inputs:
        import torch

        rows, dim = case.sizes["rows"], case.sizes["dim"]
        x = torch.randn(rows, dim, generator=random, device=case.device)
        x[-1] *= EPS**0.5  # where eps counts
        weight = torch.randn(dim, generator=random, device=case.device)
        return Inputs((x.to(dtype), weight.to(dtype)), {"eps": EPS})

    def eager(self) -> "Callable[..., Tensor]":
        from torch.nn.functional import rms_norm

        def call(x: "Tensor", weight: "Tensor", eps: float) -> "Tensor":
            return rms_norm(x, weight.shape, weight, eps)

        return call

    def truth(self, case: Case, inputs: Inputs, rows: "Tensor | None" = None) -> "Tensor":
        x, weight = (tensor.double() for tensor in inputs.tensors)
        return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * weight

    def change(self, tensors: "Sequence[Tensor]") -> None:
        """weight becomes -weight, which negates the result."""
        tensors[1].data.neg_()
