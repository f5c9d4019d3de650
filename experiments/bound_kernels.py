"""Kernels with one known bottleneck each, to check what `flashbench profile` reports.

    ncu --profile-from-start off ... python experiments/bound_kernels.py
    flashbench profile b1-h16-q4096-d128-bf16-full-cuda --candidate experiments.bound_kernels:exp

Each kernel is a candidate with a wrong result: it only produces the load. Without ncu the times are
printed. The rules of flashbench/profile/bottleneck.py are tested on the counters of these kernels
(tests/profile/bound). Needs nvcc, torch with CUDA and, for `triton_attention`, triton.
"""

import ctypes
import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

_SOURCE = r"""
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>

// Reads every float4 once.
__global__ void dram(const float4* x, int64_t n, float* out) {
    float sum = 0;
    for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float4 v = __ldcs(x + i);
        sum += v.x + v.y + v.z + v.w;
    }
    if (sum == 12345.f) *out = sum;
}

// Reads a buffer that the L2 cache holds, many times, past L1.
__global__ void l2(const float4* x, int64_t n, float* out) {
    float sum = 0;
    for (int round = 0; round < 32; ++round) {
        const int threads = gridDim.x * blockDim.x;
        #pragma unroll 4
        for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
            const float4 v = __ldcg(x + i);
            sum += v.x + v.y + v.z + v.w;
        }
    }
    if (sum == 12345.f) *out = sum;
}

// Each thread of a warp reads a sector of its own, 128 bytes from the next.
__global__ void uncoalesced(const float* x, int64_t n, float* out) {
    float sum = 0;
    const int64_t threads = int64_t{gridDim.x} * blockDim.x;
    const int64_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t i = thread * 32; i < n; i += threads * 32) sum += __ldcs(x + i);
    if (sum == 12345.f) *out = sum;
}

__global__ void mma_sync(int rounds, float* out) {
    float d[8][4] = {};
    uint32_t a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {4, 5};
    for (int i = 0; i < rounds; ++i) {
        #pragma unroll
        for (int t = 0; t < 8; ++t) {
            asm volatile(
                "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                : "+f"(d[t][0]), "+f"(d[t][1]), "+f"(d[t][2]), "+f"(d[t][3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        }
    }
    float sum = 0;
    for (auto& row : d) for (float v : row) sum += v;
    if (sum == 12345.f) *out = sum;
}

__global__ void exp2s(int rounds, float* out) {
    float a = threadIdx.x, b = 1, c = 2, d = 3;
    for (int i = 0; i < rounds; ++i) {
        #pragma unroll 8
        for (int j = 0; j < 8; ++j) {
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(a));
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(b));
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(c));
            asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(d));
        }
    }
    if (a + b + c + d == 12345.f) *out = a;
}

__device__ float multiply_add(int rounds, float seed) {
    float sums[8];
    for (int j = 0; j < 8; ++j) sums[j] = seed + j;
    for (int i = 0; i < rounds; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(sums[j]) : "f"(seed));
        }
    }
    float sum = 0;
    for (float v : sums) sum += v;
    return sum;
}

__global__ void fma(int rounds, float* out) {
    const float sum = multiply_add(rounds, threadIdx.x);
    if (sum == 12345.f) *out = sum;
}

// The same work by blocks that an SM holds one of: one more than there are SMs, or a few.
__global__ void fma_one_block_an_sm(int rounds, float* out) {
    extern __shared__ float shared[];
    const float sum = multiply_add(rounds, threadIdx.x);
    if (sum == 12345.f) *out = sum + shared[0];
}

__global__ void alu(int rounds, float* out) {
    uint32_t a = threadIdx.x, b = 1, c = 2, d = 3;
    for (int i = 0; i < rounds; ++i) {
        #pragma unroll 8
        for (int j = 0; j < 8; ++j) {
            asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(a) : "r"(b), "r"(c));
            asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(b) : "r"(c), "r"(d));
            asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(c) : "r"(d), "r"(a));
            asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(d) : "r"(a), "r"(b));
        }
    }
    if (a + b + c + d == 12345) *out = a;
}

// stride 32: all threads of a warp read the same bank. stride 1: none do.
__global__ void shared_memory(int rounds, int stride, float* out) {
    __shared__ float buffer[32 * 32 * 4];
    for (int i = threadIdx.x; i < 32 * 32 * 4; i += blockDim.x) buffer[i] = i;
    __syncthreads();
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(buffer)) +
                        4 * (threadIdx.x % 32) * stride;
    float sum = 0;
    for (int i = 0; i < rounds; ++i) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            float v;
            asm volatile("ld.volatile.shared.f32 %0, [%1];" : "=f"(v) : "r"(at + 4096 * (j & 3)));
            sum += v;
        }
    }
    if (sum == 12345.f) *out = sum;
}

// A chain of loads, each of which needs the one before; one warp a block, few blocks an SM.
__global__ void latency(const int* next, int rounds, float* out) {
    extern __shared__ float shared[];
    int at = (blockIdx.x * 32 + threadIdx.x) * 64;
    for (int i = 0; i < rounds; ++i) at = __ldcg(next + at);
    if (at == -1) *out = shared[0];
}

// One warp of each block works, the others wait for it.
__global__ void barrier(int rounds, float* out) {
    float sum = threadIdx.x;
    for (int i = 0; i < rounds; ++i) {
        if (threadIdx.x < 32) {
            for (int j = 0; j < 64; ++j) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(sum));
        }
        __syncthreads();
    }
    if (sum == 12345.f) *out = sum;
}

__global__ void nothing(float* out) {}

extern "C" int run(int kind, void* data, int64_t bytes, float* out, int sms, cudaStream_t stream) {
    constexpr int most = 200 * 1024;
    cudaFuncSetAttribute(fma_one_block_an_sm, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    cudaFuncSetAttribute(latency, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    auto vectors = static_cast<const float4*>(data);
    auto floats = static_cast<const float*>(data);
    auto chain = static_cast<const int*>(data);
    switch (kind) {
        case 0: dram<<<sms * 8, 256, 0, stream>>>(vectors, bytes / 16, out); break;
        case 1: l2<<<sms * 8, 256, 0, stream>>>(vectors, (16 << 20) / 16, out); break;
        case 2: uncoalesced<<<sms * 8, 256, 0, stream>>>(floats, bytes / 4, out); break;
        case 3: mma_sync<<<sms * 4, 256, 0, stream>>>(2000, out); break;
        case 4: exp2s<<<sms * 8, 256, 0, stream>>>(200, out); break;
        case 5: fma<<<sms * 8, 256, 0, stream>>>(3000, out); break;
        case 6: alu<<<sms * 8, 256, 0, stream>>>(400, out); break;
        case 7: shared_memory<<<sms * 8, 256, 0, stream>>>(8, 32, out); break;
        case 8: shared_memory<<<sms * 8, 256, 0, stream>>>(200, 1, out); break;
        case 9: fma_one_block_an_sm<<<sms + 1, 256, most, stream>>>(8000, out); break;
        case 10: fma_one_block_an_sm<<<16, 256, most, stream>>>(8000, out); break;
        case 11: latency<<<sms, 32, most, stream>>>(chain, 2000, out); break;
        case 12: barrier<<<sms * 2, 1024, 0, stream>>>(500, out); break;
        case 13: nothing<<<1, 32, 0, stream>>>(out); break;
    }
    return static_cast<int>(cudaGetLastError());
}
"""
KINDS = (
    "dram",
    "l2",
    "uncoalesced",
    "mma_sync",
    "exp",
    "fma",
    "alu",
    "conflicts",
    "shared_memory",
    "tail",
    "few_blocks",
    "latency",
    "barrier",
    "nothing",
)
_BYTES = 1 << 29


@functools.cache
def _library() -> ctypes.CDLL:
    folder = Path(tempfile.mkdtemp(prefix="bound-kernels-"))
    source, library = folder / "bound.cu", folder / "bound.so"
    source.write_text(_SOURCE)
    major, minor = torch.cuda.get_device_capability()
    arch = f"-arch=sm_{major}{minor}{'a' if major == 9 else ''}"
    subprocess.run(
        ["nvcc", "-O3", arch, "-shared", "-Xcompiler", "-fPIC", "-o", library, source], check=True
    )
    return ctypes.CDLL(str(library))


@functools.cache
def _memory() -> tuple[Tensor, Tensor, int]:
    """The memory that the kernels read; as indices, a chain with jumps of just over 64 KiB."""
    index = torch.arange(_BYTES // 4, dtype=torch.int64, device="cuda")
    chain = ((index + 16384 + 96) % len(index)).to(torch.int32)
    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    return chain, torch.empty(1, device="cuda"), sms


def launch(kind: str) -> None:
    """Start a kernel on the current stream."""
    data, out, sms = _memory()
    code = _library().run(
        KINDS.index(kind),
        ctypes.c_void_p(data.data_ptr()),
        ctypes.c_int64(_BYTES),
        ctypes.c_void_p(out.data_ptr()),
        sms,
        ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
    )
    if code:
        raise RuntimeError(f"{kind}: CUDA error {code}")


@functools.cache
def _factors() -> tuple[Tensor, Tensor]:
    return tuple(torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))  # type: ignore[return-value]


def product(q: Tensor, k: Tensor, v: Tensor, **keywords: Any) -> Tensor:
    """cuBLAS's largest product: bound by the tensor cores."""
    torch.matmul(*_factors())
    return torch.empty_like(q)


def _candidate(kind: str) -> Callable[..., Tensor]:
    def call(q: Tensor, k: Tensor, v: Tensor, **keywords: Any) -> Tensor:
        launch(kind)
        return torch.empty_like(q)

    call.__name__ = kind
    return call


for _kind in KINDS:
    globals()[_kind] = _candidate(_kind)


def triton_attention(q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool = False) -> Tensor:
    """Fused attention as a first Triton version: no mask, lengths of whole blocks."""
    if triton is None or is_causal or q.shape != k.shape or q.shape[2] % 128:
        raise NotImplementedError("triton, full attention of whole blocks alone")
    out = torch.empty_like(q)
    heads, length, dim = q.shape[0] * q.shape[1], q.shape[2], q.shape[3]
    scale = dim**-0.5 * 1.4426950408889634
    _tile[(length // 128, heads)](q, k, v, out, length, scale, dim=dim, num_warps=8, num_stages=2)
    return out


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _tile(q, k, v, out, length, scale, dim: tl.constexpr):  # type: ignore[no-untyped-def]
        tile, head = tl.program_id(0), tl.program_id(1)
        rows, dims = tl.arange(0, 128), tl.arange(0, dim)
        at = head * length * dim + (tile * 128 + rows)[:, None] * dim + dims[None, :]
        a = tl.load(q + at)
        top = tl.full([128], -1e30, tl.float32)
        total = tl.zeros([128], tl.float32)
        sums = tl.zeros([128, dim], tl.float32)
        for start in range(0, length, 64):
            keys = start + tl.arange(0, 64)
            b = tl.load(k + head * length * dim + keys[None, :] * dim + dims[:, None])
            scores = tl.dot(a, b) * scale
            higher = tl.maximum(top, tl.max(scores, 1))
            weights = tl.exp2(scores - higher[:, None])
            old = tl.exp2(top - higher)
            total = total * old + tl.sum(weights, 1)
            c = tl.load(v + head * length * dim + keys[:, None] * dim + dims[None, :])
            sums = sums * old[:, None] + tl.dot(weights.to(a.dtype), c)
            top = higher
        tl.store(out + at, (sums / total[:, None]).to(a.dtype))


def main() -> None:
    """Run every kernel once between the marks that ncu looks for, and print each one's time."""
    kinds = sys.argv[1:] or [*KINDS, "product"]
    x = torch.empty(1, 1, 1, 1, device="cuda")
    calls = {kind: functools.partial(globals()[kind], x, x, x) for kind in kinds}
    for kind, call in calls.items():
        call()
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        print(f"{kind}: {1000 * begin.elapsed_time(end):.2f} us", flush=True)
    torch.cuda.profiler.start()
    for call in calls.values():
        call()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    main()
