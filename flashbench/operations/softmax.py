"""Softmax over the last dimension."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from flashbench.case import Case
from flashbench.operations.operation import Inputs, Operation, Options, Sizes

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Softmax(Operation):
    """call(x): x (rows, dim); the result is like x."""

    name = "softmax"
    sizes = ("rows", "dim")
    presets: Mapping[str, Sequence[str]] = {
        "tiny": ("rows=16,dim=64",),
        "headline": ("rows=4096,dim=4096",),
        "grid": ("rows=1,128,4096,32768,dim=1024,4096,32768",),
    }

    def flops(self, sizes: Sizes, options: Options) -> int:
        """Less the maximum, the sum, the quotient."""
        return 3 * sizes["rows"] * sizes["dim"]

    def exponentials(self, sizes: Sizes, options: Options) -> int:
        return sizes["rows"] * sizes["dim"]

    def elements(self, sizes: Sizes) -> int:
        return 2 * sizes["rows"] * sizes["dim"]

    def inputs(self, case: Case, dtype: "torch.dtype", random: "torch.Generator") -> Inputs:
        import torch

        rows, dim = case.sizes["rows"], case.sizes["dim"]
        return Inputs((torch.randn(rows, dim, generator=random, device=case.device).to(dtype),))

    def eager(self) -> "Callable[..., Tensor]":
        from torch import softmax

        def call(x: "Tensor") -> "Tensor":
            return softmax(x, -1)

        return call

    def truth(self, case: Case, inputs: Inputs, rows: "Tensor | None" = None) -> "Tensor":
        return inputs.tensors[0].double().softmax(-1)
