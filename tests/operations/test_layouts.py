"""Layouts of attention: views of memory in another order, with the usual values."""

import pytest
import torch

from flashbench.callables import LAYOUTS
from flashbench.measuring.problem import Problem
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import Shape


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_changes_strides_alone(layout: str) -> None:
    """Shape and memory are those of the layout's name; a candidate that takes q, k, v in that order
    copies nothing, and its answer passes the same check."""
    case = attention_case(Shape(2, 4, 2, 8, 6, 16), "fp32", False, "cpu", layout=layout)
    usual = attention_case(Shape(2, 4, 2, 8, 6, 16), "fp32", False, "cpu")
    problem = Problem(case, 0, full_check=True)
    order = ["bhsd".index(letter) for letter in layout]
    for x, length in zip(problem.inputs, (8, 6, 6), strict=True):
        assert x.shape[2:] == (length, 16)
        assert x.permute(order).is_contiguous()
        assert x.is_contiguous() == (layout == "bhsd")
    q, k, v = problem.inputs
    problem.flip()
    assert problem.unchanged()
    found = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert problem.check(found, problem.sign).correct
    assert (case.id == usual.id) == (layout == "bhsd")
    assert (case.flops, case.bytes) == (usual.flops, usual.bytes)
