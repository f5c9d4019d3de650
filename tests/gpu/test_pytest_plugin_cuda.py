"""The pytest plugin on a GPU."""

import pytest
import torch
from pytest_plugin.runs import run_pytest

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")

TEST = """
@pytest.mark.attention("1,8,512,64", dtype="fp16", device="auto", samples=8,
                       candidates=["sdpa", "good=kernels:good"])
def test_it(attention, benchmark):
    assert attention.q.is_cuda
    benchmark(attention)

@pytest.mark.attention("1,8,512,64", dtype="fp16", samples=8, candidates="sdpa", metric="graph")
def test_graph(attention, benchmark):
    benchmark(attention)

@pytest.mark.attention("1,8,512,64", dtype="fp16", samples=8, candidates="wrong=kernels:wrong")
def test_wrong(attention, benchmark):
    benchmark(attention)
"""


def test_device_times(tmp_path):
    """Device times of our clock under the GPU's name; a wrong result fails the test."""
    code, said, written = run_pytest(tmp_path, TEST)
    assert code == 1
    assert "1 failed, 3 passed" in said
    assert "wrong result: max error" in said
    found = [benchmark["extra_info"]["flashbench"] for benchmark in written["benchmarks"]]
    assert [one["metric"] for one in found] == ["gpu_warm", "gpu_warm", "graph"]
    assert {one["gpu"] for one in found} == {torch.cuda.get_device_name()}
    assert {one["case"] for one in found} == {"b1-h8-q512-d64-fp16-full-cuda"}
    assert all(len(benchmark["stats"]["data"]) == 8 for benchmark in written["benchmarks"])
