"""Which functions may be the attention to measure, the likeliest first."""

from pathlib import Path

from revisions.repository import Repository

from flashbench.init.adapter_text import adapter, unknown
from flashbench.init.attention_functions import Function, functions
from flashbench.preflight.source.tree import read_tree

PYTHON = """\
import triton


@triton.jit
def attention_kernel(Q, K, V, N):
    pass


def attention_backward(q, k, v, o, do):
    pass


def naive_attention(q, k, v):
    pass


def rotate(x, q, k, v):
    pass


def attention(q, k, v, mask, *, scale, dropout=0.1, causal=True):
    pass
"""
IN_C = """\
void attn_forward(float *out, const float *q, const float *k, const float *v,
                  size_t h, int n, int d) {
  out[0] = q[0];
}
"""
BOUND = """\
#include <torch/extension.h>

torch::Tensor attend(torch::Tensor q, torch::Tensor k, torch::Tensor v, double scale, int window,
                     bool causal) {
  return q;
}
PYBIND11_MODULE(fast, m) { m.def("attend", &attend, py::arg("window") = 4); }
"""
SETUP = """\
from setuptools import setup
from torch.utils.cpp_extension import CppExtension

setup(name="fast", ext_modules=[CppExtension("fast", ["attend.cpp"])])
"""


def found(root: Path, **files: str) -> list[Function]:
    repository = Repository(root / "repository")
    for name, text in files.items():
        repository.write(name.replace("__", "."), text)
    repository.commit("Files")
    return functions(read_tree(repository.root))


def test_python_functions_in_order(tmp_path: Path) -> None:
    """A reference and gradients come last; what runs on the device alone, or does not begin with
    q, k, v, is none. Required parameters get what their names say."""
    first, *others = found(tmp_path, a__py=PYTHON)
    assert [one.name for one in others] == ["naive_attention", "attention_backward"]
    assert first.spec == "a:attention"
    assert unknown(first) == []
    called = "function(q, k, v, mask=None, scale=q.shape[-1] ** -0.5, causal=is_causal)"
    assert called in adapter(first)
    assert unknown(others[-1]) == ["o", "do"]
    assert "function(q, k, v, o=EDIT_o, do=EDIT_do)" in adapter(others[-1])


def test_in_c_the_output_may_come_first(tmp_path: Path) -> None:
    """It is named by its file, as it has no module. With heads and no batch it is called for each
    batch, without heads for each head."""
    (one,) = found(tmp_path, attn__c=IN_C)
    assert one.spec == "attn.c:attn_forward"
    assert unknown(one) == []
    words = adapter(one).partition("library.attn_forward(")[2].split(")\n    return")[0].split()
    assert words == [
        "pointer(o),",
        "pointer(q),",
        "pointer(k),",
        "pointer(v),",
        "ctypes.c_int64(h),",
        "n,",
        "d,",
    ]
    assert "    for q, k, v, o in zip(q, k, v, out):\n        library" in adapter(one)
    (one,) = found(tmp_path / "one head", attn__c=IN_C.replace("size_t h, ", ""))
    assert "x.flatten(0, 1) for x in (q, k, v, out))):\n        library" in adapter(one)


def test_arguments_of_cpp_are_given_by_place(tmp_path: Path) -> None:
    """Their names may not be bound, unless one before has a default there."""
    (one,) = found(tmp_path, attend__cpp=BOUND, setup__py=SETUP)
    assert "function(q, k, v, q.shape[-1] ** -0.5, causal=is_causal)" in adapter(one)
