"""The product of two matrices."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from flashbench.case import Case
from flashbench.operations.operation import Inputs, Operation, Options, Sizes

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Matmul(Operation):
    """call(a, b): a (m, k), b (k, n); the result is (m, n)."""

    name = "matmul"
    sizes = ("m", "n", "k")
    presets: Mapping[str, Sequence[str]] = {
        "tiny": ("m=64,n=64,k=64",),
        "headline": ("m=4096,n=4096,k=4096",),
        "grid": (
            "m=1024,n=1024,k=1024",
            "m=2048,n=2048,k=2048",
            "m=4096,n=4096,k=4096",
            "m=8192,n=8192,k=8192",
            "m=16,64,4096,n=4096,k=14336",
        ),
    }
    change_negates = True
    row_dimension = 0

    def flops(self, sizes: Sizes, options: Options) -> int:
        return 2 * sizes["m"] * sizes["n"] * sizes["k"]

    def elements(self, sizes: Sizes) -> int:
        m, n, k = (sizes[name] for name in self.sizes)
        return m * k + k * n + m * n

    def inputs(self, case: Case, dtype: "torch.dtype", random: "torch.Generator") -> Inputs:
        import torch

        m, n, k = (case.sizes[name] for name in self.sizes)
        a = torch.randn(m, k, generator=random, device=case.device)
        b = torch.randn(k, n, generator=random, device=case.device)
        return Inputs((a.to(dtype), b.to(dtype)))

    def eager(self) -> "Callable[..., Tensor]":
        from torch import matmul

        return matmul

    def truth(self, case: Case, inputs: Inputs, rows: "Tensor | None" = None) -> "Tensor":
        a, b = inputs.tensors
        return (a if rows is None else a[rows.to(a.device)]).double() @ b.double()

    def rounding(self, case: Case, expected: "Tensor", dtype: "torch.dtype") -> float:
        """The rounding error of the result, plus that of k float32 sums taken one after the other:
        another order than torch's is no error."""
        import torch

        return super().rounding(case, expected, dtype) + case.sizes["k"] * torch.finfo().eps
