"""Tests of attention for the golden inputs, on flashbench's clock through its pytest plugin."""

import os

import pytest
from torch.nn.functional import scaled_dot_product_attention


def twice(q, k, v, **keywords):
    scaled_dot_product_attention(q, k, v, **keywords)
    return scaled_dot_product_attention(q, k, v, **keywords)


def mine(q, k, v, **keywords):
    if os.environ.get("TOY_SLOWER"):
        twice(q, k, v, **keywords)
    return twice(q, k, v, **keywords)


@pytest.mark.attention(
    "1,2,64,32",
    dtype=["fp32", "bf16"],
    causal=True,
    device="cpu",
    samples=8,
    candidates=["sdpa", "mine=test_toy:mine"],
)
def test_attention(attention, benchmark):
    benchmark(attention)
