"""Third-party headers: the compiler's, the toolkits', and any installed on this machine."""

import os
import re
import sysconfig
from functools import cache
from pathlib import Path

# Whole names and leading folders, so a project's own cuda_utils.h is not mistaken for CUDA's.
_FOLDERS = (
    r"(cuda|cooperative_groups|thrust|cub|cutlass|cute|nv|nvtx3|nccl|crt|hip\w*|roc\w+|torch|ATen|"
    r"c10|caffe2|pybind11|nanobind|numpy|tvm|dlpack|xla|tensorflow|jax|jaxlib|gtest|gmock|"
    r"tbb|benchmark|catch2?|doctest|fmt|absl|boost|Eigen|sycl|oneapi|level_zero|CL|vulkan|sys|asm|"
    r"asm-generic|linux|bits|ext|net|netinet|arpa|torch_\w+|torchvision|google|grpc(pp)?|opencv2|"
    r"spdlog|nlohmann|rapidjson|glog|gflags|flatbuffers|mlir|llvm|clang|triton|onnx|onnxruntime|"
    r"openvino|arrow|rmm|raft|cuvs|cudf|Kokkos\w*|folly|hdf5|GL|GLFW|glm|SDL2|X11|dnnl|miopen|"
    r"ck(_tile)?|acl|aclnn|faiss|fbgemm(_gpu)?|ucp|uct|ucs|infiniband|rdma|nvshmem|cudnn_frontend|"
    r"matx|doca\w*|openssl|libavcodec)/"
)
_NVIDIA = (
    r"cuda(_(runtime|runtime_api|fp16|bf16|fp8|fp6|fp4|profiler_api|pipeline\w*|awbarrier\w*|"
    r"texture_types|surface_types|occupancy|device_runtime_api|stdint|[a-z]+_interop)|"
    r"Profiler|GL|EGL)?|cublas(_v2|_api|Lt|Xt)?|"
    r"cudnn(_(version|frontend|backend|graph|(ops|cnn|adv)\w*))?|cufft(w|Xt)?|"
    r"curand(_(kernel|normal|uniform|globals|mtgp32\w*))?|cusolver(Dn|Sp|Rf|Mg|Mp|_common|Sp_LOWLEVEL_PREVIEW)?|"
    r"cusparse(Lt|_v2)?|cutensor(Mg)?|cufile|cupti\w*|nccl(_device)?|nvrtc|nvml|nvToolsExt\w*|"
    r"npp(i|s|core|defs|[is]_\w+)?|nvjpeg|nvblas|nvvm|nvfatbin|nvcuvid|cuviddec|nvEncodeAPI|"
    r"cudla(ExternalEtbl)?|nvsci(buf|error|event|ipc|stream|sync)|nvmedia_\w+|"
    r"nvJitLink|nvPTXCompiler|nvshmemx?|nvfunctional|mma|cooperative_groups|"
    r"sm_\d\d_(intrinsics|\w+_functions)|device_(launch_parameters|types|\w*functions)|"
    r"(vector|driver|channel|texture|surface|library|builtin)_(types|functions|descriptor)|"
    r"host_(config|defines)|math_(constants|functions)"
)
_SYSTEM = (
    r"Python|structmember|catch|doctest|"
    r"mkl(_(cblas|lapacke?|types|service|vsl|vml|spblas|dfti))?|cblas|lapacke?|omp|mpi|tbb|"
    r"\w*intrin|cpuid|arm_(neon|sve|sme|acle|fp16|bf16)|windows|unistd|stdint|stdio|stdlib|"
    r"stddef|stdbool|stdarg|stdatomic|stdalign|math|complex|string|strings|memory|malloc|alloca|"
    r"assert|errno|signal|setjmp|time|limits|float|fenv|ctype|wchar|wctype|uchar|locale|inttypes|"
    r"iso646|tgmath|threads|pthread|semaphore|sched|dlfcn|fcntl|poll|getopt|numa|endian|byteswap|"
    r"execinfo|cxxabi|aten|mlu_op|cnrt|cnnl|bang|hip_runtime|rocblas|hipblas|d3d\d\w*|dxgi\w*"
)
_OTHERS = re.compile(rf"{_FOLDERS}|({_NVIDIA}|{_SYSTEM})\.(h|hpp|hh|cuh)\Z")


@cache
def of_others(name: str) -> bool:
    """Whether an include names a known third-party header, by its name or its folder."""
    return _OTHERS.match(name) is not None


@cache
def installed(name: str) -> bool:
    """Whether this machine has the header where compilers look."""
    return any(os.path.isfile(f"{place}/{name}") for place in _places())  # noqa: PTH113


@cache
def _places() -> tuple[Path, ...]:
    """Directories on this machine that hold third-party headers."""
    places = [Path("/usr/include"), Path("/usr/local/include"), Path("/usr/local/cuda/include")]
    places += sorted(Path("/usr/lib/gcc").glob("*/*/include"))
    places += sorted(Path("/usr/include").glob("*-linux-gnu"))
    places += [Path(sysconfig.get_paths()["include"])]
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            places.append(Path(os.environ[variable]) / "include")
    for variable in ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):
        places += [Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part]
    packages = Path(sysconfig.get_paths()["purelib"])
    for inside in ("torch/include", "torch/include/torch/csrc/api/include", "pybind11/include"):
        places.append(packages / inside)
    places += sorted((packages / "nvidia").glob("*/include")) if packages.is_dir() else []
    return tuple(place for place in places if place.is_dir())
