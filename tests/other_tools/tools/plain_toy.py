"""Tests that know pytest-benchmark alone."""

import pytest


@pytest.mark.parametrize("n", [100, 200])
def test_sum(benchmark, n):
    benchmark.pedantic(sum, args=(range(n),), rounds=8, iterations=50)
