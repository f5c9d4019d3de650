"""A healthy kernel project of C++ and CUDA sources in a git repository, and its defects."""

from pathlib import Path

from revisions.repository import Repository

FILES = {
    ".gitignore": "*.o\nlocal_*.h\n",
    "pyproject.toml": """\
[build-system]
requires = ["setuptools"]

[tool.flashbench.project]
callable = "flash.api:attention"
build = ["python", "setup.py", "build_ext", "--inplace"]
sources = ["csrc", "setup.py"]
""",
    "setup.py": """\
from setuptools import setup
from torch.utils.cpp_extension import CUDAExtension

setup(
    ext_modules=[
        CUDAExtension(
            name="flash._C",
            sources=["csrc/bindings.cpp", "csrc/forward.cu", "csrc/combine.cpp"],
        )
    ]
)
""",
    "flash/__init__.py": "",
    "flash/api.py": "def attention(q, k, v, is_causal=False, enable_gqa=False): ...\n",
    "csrc/config.h": """\
#pragma once
#define MAX_THREADS 1024
constexpr int WARP_SIZE = 32;
""",
    "csrc/forward.h": """\
#pragma once
#include "config.h"
#include <torch/extension.h>

namespace flash {
// Declared: void not_there(int); "and so/* is this"
void combine(const float* partial, float* out, int count);
template <typename T, int HeadDim>
void launch(const T* q, T* out, int rows);
}  // namespace flash
""",
    "csrc/forward.cu": """\
#include "forward.h"
#include <cuda_bf16.h>

namespace flash {
template <typename T, int HeadDim>
__global__ void forward_kernel(const T* q, T* out, int rows) {
    out[threadIdx.x] = q[threadIdx.x];
}

template <typename T, int HeadDim>
void launch(const T* q, T* out, int rows) {
    forward_kernel<T, HeadDim><<<rows, WARP_SIZE>>>(q, out, rows);
}

template void launch<at::Half, 64>(const at::Half*, at::Half*, int);
template void launch<at::BFloat16, 64>(const at::BFloat16*, at::BFloat16*, int);
}  // namespace flash
""",
    "csrc/combine.cpp": """\
#include "forward.h"

void flash::combine(const float* partial, float* out, int count) {
    for (int i = 0; i < count; ++i) out[i] += partial[i];
}
""",
    "csrc/bindings.cpp": """\
#include "forward.h"

static void forward(at::Tensor q, at::Tensor out) {
    if (q.scalar_type() == at::kHalf) {
        flash::launch<at::Half, 64>(q.data_ptr<at::Half>(), out.data_ptr<at::Half>(), 1);
    } else {
        flash::launch<c10::BFloat16, 64>(q.data_ptr<c10::BFloat16>(), nullptr, 1);
    }
    flash::combine(nullptr, nullptr, 0);
}

PYBIND11_MODULE(_C, m) { m.def("forward", &forward); }
""",
}


def kernel_project(root: Path) -> Repository:
    """The healthy project, committed."""
    repository = Repository(root)
    for name, text in FILES.items():
        repository.write(name, text)
    repository.commit("A kernel")
    return repository


def add_submodule(project: Repository, name: str, text: str) -> Repository:
    """A repository beside the project with one file, fetched into third_party/tiles."""
    other = Repository(project.root.parent / "tiles")
    other.write(name, text)
    other.commit("Tiles")
    allowed = ("-c", "protocol.file.allow=always")
    project.git(*allowed, "submodule", "-q", "add", str(other.root), "third_party/tiles")
    return other
