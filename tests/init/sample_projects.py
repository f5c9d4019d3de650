"""Repositories that do not know flashbench, each with two commits, the second faster."""

from pathlib import Path

from revisions.repository import Repository

IN_C = """\
#include <math.h>
#define REPEAT 2

static float dot(const float *a, const float *b, int d) {
  float sum = 0;
  for (int x = 0; x < d; x++) sum += a[x] * b[x];
  return sum;
}

void attention_forward(const float *q, const float *k, const float *v, float *out, int bh,
                       int seq_len, int kv_len, int head_dim, float scale, int causal) {
  for (int repeat = 0; repeat < REPEAT; repeat++)
    for (int row = 0; row < bh * seq_len; row++) {
      const int head = row / seq_len, seen = causal ? row % seq_len + 1 : kv_len;
      float high = -INFINITY, sum = 0;
      float *o = out + row * head_dim;
      for (int x = 0; x < head_dim; x++) o[x] = 0;
      for (int j = 0; j < seen && j < kv_len; j++) {
        const float *key = k + (head * kv_len + j) * head_dim;
        const float *value = v + (head * kv_len + j) * head_dim;
        const float s = scale * dot(q + row * head_dim, key, head_dim);
        const float top = s > high ? s : high, old = expf(high - top), p = expf(s - top);
        for (int x = 0; x < head_dim; x++) o[x] = o[x] * old + p * value[x];
        sum = sum * old + p;
        high = top;
      }
      for (int x = 0; x < head_dim; x++) o[x] /= sum;
    }
}
"""
MAKEFILE = """\
libfastc.so: src/attention.c
\t$(CC) -O2 -shared -fPIC -o $@ $< -lm
"""

CMAKE = """\
cmake_minimum_required(VERSION 3.15)
project(fastc LANGUAGES C)
add_library(fastc SHARED src/attention.c)
target_compile_options(fastc PRIVATE -O2)
target_link_libraries(fastc PRIVATE m)
"""
# Found by flashbench, but the library that it loads lies outside what can be imported from there.
LOADS_BUILD = """\
import ctypes
import os

library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "..", "build", "libfastc.so"))


def attention(q, k, v):
    raise NotImplementedError
"""
# As scikit-build-core or meson-python: a wheel, with what CMake has built.
BACKEND = """\
import subprocess
import sys
import zipfile


def build_wheel(folder, config_settings=None, metadata_directory=None):
    subprocess.run(["cmake", "-S", ".", "-B", "build"], check=True)
    subprocess.run(["cmake", "--build", "build"], check=True)
    with zipfile.ZipFile(f"{folder}/fastc-1-py3-none-any.whl", "w") as wheel:
        wheel.write("src/fastc/__init__.py", "fastc/__init__.py")
        wheel.write("build/libfastc.so", "fastc/libfastc.so")
        metadata = "Metadata-Version: 2.1\\nName: fastc\\nVersion: 1"
        wheel.writestr("fastc-1.dist-info/METADATA", metadata)
        wheel.writestr("fastc-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any")
        wheel.writestr("fastc-1.dist-info/RECORD", "")
    return "fastc-1-py3-none-any.whl"
"""
OF_NUMPY = """\
import ctypes
from pathlib import Path

import numpy as np

library = ctypes.CDLL(str(Path(__file__).parent / "libfastc.so"))


def attention(query, key, value, causal=False):
    b, h, n, d = query.shape
    arrays = [np.ascontiguousarray(x, np.float32) for x in (query, key, value)]
    arrays.append(np.empty_like(arrays[0]))
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in arrays]
    scale = ctypes.c_float(d**-0.5)
    library.attention_forward(*pointers, b * h, n, key.shape[2], d, scale, int(causal))
    return arrays[-1]
"""

# In flash-attn's layout: (batch, length, heads, head dim).
IN_PYTHON = '''\
"""Attention in blocks of keys."""

import torch

BLOCK = 8


def block_attention(query, key, value, causal=False):
    """query, key, value: (batch, length, heads, head dim)."""
    q, k, v = (x.transpose(1, 2).float() for x in (query, key, value))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    scores = scores - scores.amax(-1, keepdim=True)
    out = torch.zeros_like(q)
    for start in range(0, k.shape[2], BLOCK):
        keys = slice(start, start + BLOCK)
        out += scores[..., keys].exp() @ v[:, :, keys]
    return (out / scores.exp().sum(-1, keepdim=True)).transpose(1, 2).to(query.dtype)
'''

WRAPPER = """

def attend(q, k, v, *, is_causal: bool = False):
    if q.dtype != torch.float32:
        raise RuntimeError(f"attend takes float32, not {q.dtype}")
    out, (b, h, n, d) = torch.empty_like(q), q.shape
    pointers = [ctypes.c_void_p(x.data_ptr()) for x in (q, k, v, out)]
    scale = ctypes.c_float(d**-0.5)
    library.attention_forward(*pointers, b * h, n, k.shape[2], d, scale, int(is_causal))
    return out
"""
SETUP = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="fastcpp",
    packages=["fastcpp"],
    ext_modules=[CppExtension("fastcpp._C", ["csrc/attend.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
"""
LOADS_LIBRARY = """\
import ctypes
from pathlib import Path

import torch

library = ctypes.CDLL(str(next(Path(__file__).parent.glob("_C*.so"))))
"""
COMPILES = """\
import ctypes
from pathlib import Path

import torch
from torch.utils.cpp_extension import load

source = Path(__file__).parent.parent / "csrc" / "attend.cpp"
library = ctypes.CDLL(load(name="fastcpp", sources=[str(source)], is_python_module=False))
"""

SUMS = """\
def total(numbers):
    return sum(sum([one]) for one in numbers)
"""
ASV = """\
from sums import total


class TimeTotal:
    def setup(self):
        self.numbers = list(range(300))

    def time_total(self):
        total(self.numbers)
"""


def in_c(root: Path) -> Repository:
    """A library that ctypes loads, by make."""
    found = Repository(root)
    found.write("src/attention.c", IN_C)
    found.write("Makefile", MAKEFILE)
    return _with_a_faster_commit(found, "src/attention.c", "REPEAT 2", "REPEAT 1")


def by_cmake(root: Path) -> Repository:
    """The library by CMake, and a module that only works in the author's working tree."""
    found = Repository(root)
    found.write("src/attention.c", IN_C)
    found.write("CMakeLists.txt", CMAKE)
    found.write("python/fastc.py", LOADS_BUILD)
    return _with_a_faster_commit(found, "src/attention.c", "REPEAT 2", "REPEAT 1")


def by_backend(root: Path) -> Repository:
    """A package of NumPy's arrays that a build backend makes with CMake."""
    found = Repository(root)
    found.write("src/attention.c", IN_C)
    found.write("CMakeLists.txt", CMAKE)
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    found.write("pyproject.toml", system + '[project]\nname = "fastc"\nversion = "1"\n')
    found.write("backend.py", BACKEND)
    found.write("src/fastc/__init__.py", OF_NUMPY)
    return _with_a_faster_commit(found, "src/attention.c", "REPEAT 2", "REPEAT 1")


def in_python(root: Path) -> Repository:
    """A package below src, with metadata of its own."""
    found = Repository(root)
    found.write("pyproject.toml", '[project]\nname = "blocks"\nversion = "1"\n')
    found.write("src/blocks/__init__.py", "from blocks.core import block_attention\n")
    found.write("src/blocks/core.py", IN_PYTHON)
    found.write("tests/test_core.py", "def naive(q, k, v):\n    return v\n")
    return _with_a_faster_commit(found, "src/blocks/core.py", "BLOCK = 8", "BLOCK = 64")


def in_cpp(root: Path) -> Repository:
    """An extension that setup.py links to torch. Without torch's headers, which take a minute."""
    found = Repository(root)
    found.write("setup.py", SETUP)
    found.write("csrc/attend.cpp", IN_C.replace("void att", 'extern "C" void att'))
    found.write("fastcpp/__init__.py", LOADS_LIBRARY + WRAPPER)
    found.write(".gitignore", "build/\n*.so\n")
    return _with_a_faster_commit(found, "csrc/attend.cpp", "REPEAT 2", "REPEAT 1")


def compiled_at_import(root: Path) -> Repository:
    """The same source, which torch.utils.cpp_extension.load compiles."""
    found = Repository(root)
    found.write("csrc/attend.cpp", IN_C.replace("void att", 'extern "C" void att'))
    found.write("fastcpp/__init__.py", COMPILES + WRAPPER)
    return _with_a_faster_commit(found, "csrc/attend.cpp", "REPEAT 2", "REPEAT 1")


def with_asv(root: Path) -> Repository:
    """A suite of asv, and no attention."""
    found = Repository(root)
    found.write("asv.conf.json", '{"version": 1, "project": "sums", "repo": "."}')
    found.write("sums/__init__.py", SUMS)
    found.write("benchmarks/__init__.py", "")
    found.write("benchmarks/bench_sum.py", ASV)
    old, new = "sum(sum([one]) for one in numbers)", "sum(numbers)"
    return _with_a_faster_commit(found, "sums/__init__.py", old, new)


def _with_a_faster_commit(found: Repository, name: str, old: str, new: str) -> Repository:
    found.commit("As it was")
    found.edit(name, old, new)
    found.commit("Faster")
    return found
