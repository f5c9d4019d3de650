"""A project's own operations: a fused norm with two results, and a GEMM with an epilogue."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from flashbench.operations import Inputs, Operation


def add_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-5) -> tuple[Tensor, ...]:
    total = x + residual
    return nn.functional.rms_norm(total, total.shape[-1:], weight, eps), total


class AddNorm(Operation):
    """call(x, residual, weight): x, residual (rows, dim), weight (dim,); normed, and the sum."""

    sizes = ("rows", "dim")
    presets: ClassVar = {"tiny": ["rows=16,dim=64"], "headline": ["rows=4096,dim=4096"]}
    results = ("normed", "total")

    def flops(self, sizes, options):
        return 5 * sizes["rows"] * sizes["dim"]

    def elements(self, sizes):
        return (4 * sizes["rows"] + 1) * sizes["dim"]

    def inputs(self, case, dtype, random):
        shape = tuple(case.sizes.values())
        x, residual, weight = (
            torch.randn(one, generator=random) for one in (shape, shape, shape[1:])
        )
        x[-1], residual[-1] = 1e-3 * x[-1], 1e-3 * residual[-1]  # where eps counts
        return Inputs((x.to(dtype), residual.to(dtype), weight.to(dtype)))

    def eager(self):
        return add_norm

    def truth(self, case, inputs, rows=None):
        return add_norm(*(x.double() for x in inputs.tensors))


def gemm_gelu(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    return nn.functional.gelu(torch.addmm(bias, a, b))


class GemmGelu(Operation):
    """call(a, b, bias): a (m, k), b (k, n), bias (n,); gelu(a b + bias)."""

    sizes = ("m", "n", "k")
    presets: ClassVar = {"tiny": ["m=16,n=16,k=64"], "headline": ["m=4096,n=4096,k=4096"]}

    def flops(self, sizes, options):
        return 2 * sizes["m"] * sizes["n"] * sizes["k"]

    def elements(self, sizes):
        m, n, k = sizes.values()
        return m * k + k * n + n + m * n

    def inputs(self, case, dtype, random):
        m, n, k = case.sizes.values()
        a, b, bias = (torch.randn(one, generator=random) for one in ((m, k), (k, n), (n,)))
        return Inputs((a.to(dtype), (b / k**0.5).to(dtype), bias.to(dtype)))

    def eager(self):
        return gemm_gelu

    def truth(self, case, inputs, rows=None):
        return gemm_gelu(*(x.double() for x in inputs.tensors))
