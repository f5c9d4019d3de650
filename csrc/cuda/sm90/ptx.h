// Wrappers of PTX instructions of sm_90a that have no C++ name, named after the instruction, and those
// of sm_80 (../ptx.h). The products (wgmma.mma_async) are in wgmma.h, the copy engine's in tma.h. Shared-memory
// addresses are 32-bit, as from __cvta_generic_to_shared.
#pragma once

#include <cstdint>

#include "../ptx.h"

namespace flashbench::cuda::sm90::ptx {

using namespace flashbench::cuda::ptx;  // sm_90a has these, too

// --- mbarrier: counts arrivals and bytes; its phase flips when both are complete -----------------

__device__ __forceinline__ void mbarrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

// Makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}

// Arrives, and makes the phase also wait for this many bytes.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier),
                 "r"(bytes)
                 : "memory");
}

// Waits until the phase of this parity has completed. A new barrier is in phase 0, and the phase before
// it (parity 1) counts as completed.
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra finished;\n"
        "bra again;\n"
        "finished:\n"
        "}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// Orders this thread's plain accesses of shared memory before what the copy engine and wgmma do
// after the next barrier.
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

// --- kernels that overlap (../overlapped.h) -------------------------------------------------------

// Waits until the kernel before this one has ended and its writes are visible.
__device__ __forceinline__ void griddepcontrol_wait() {
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
}

// The kernel after this one may start once every block has called this or ended.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;\n");
}

// --- clusters: blocks that reach each other's shared memory ---------------------------------------

__device__ __forceinline__ int cluster_ctarank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    return rank;
}

// The address of `shared` in the block `rank` of the cluster.
__device__ __forceinline__ uint32_t mapa(uint32_t shared, int rank) {
    uint32_t address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(address) : "r"(shared), "r"(rank));
    return address;
}

// Stores asynchronously to the shared memory of a block of the cluster, and reports the bytes to
// `barrier` of that block.
__device__ __forceinline__ void st_async_128(uint32_t address, uint32_t barrier, float4 value) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
        "[%5];\n" ::"r"(address),
        "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void st_async_64(uint32_t address, uint32_t barrier, float2 value) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];\n" ::
            "r"(address),
        "f"(value.x), "f"(value.y), "r"(barrier)
        : "memory");
}

// The barrier of all threads of the cluster, in two halves. Arriving does not order earlier writes.
__device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}

// --- warpgroups ----------------------------------------------------------------------------------

// x, of which the compiler knows nothing: what is computed from it stays behind the branch that it is in.
__device__ __forceinline__ int opaque(int x) {
    int y;
    asm volatile("mov.b32 %0, %1;\n" : "=r"(y) : "r"(x));
    return y;
}

// The index of this thread, asked anew at each call: what is computed from it takes no register before.
__device__ __forceinline__ unsigned tid_x() {
    unsigned index;
    asm volatile("mov.u32 %0, %%tid.x;\n" : "=r"(index));
    return index;
}

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

// Named barriers; 0 is that of __syncthreads. `threads` counts both waiting and arriving threads.
__device__ __forceinline__ void bar_sync(int name, int threads) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(name), "r"(threads) : "memory");
}

__device__ __forceinline__ void bar_arrive(int name, int threads) {
    asm volatile("bar.arrive %0, %1;\n" ::"r"(name), "r"(threads) : "memory");
}

// bar_sync that also returns whether any thread's `flag` is true.
__device__ __forceinline__ bool bar_red_or(int name, int threads, bool flag) {
    int any;
    asm volatile(
        "{\n"
        ".reg .pred mine, any;\n"
        "setp.ne.s32 mine, %3, 0;\n"
        "bar.red.or.pred any, %1, %2, mine;\n"
        "selp.s32 %0, 1, 0, any;\n"
        "}\n"
        : "=r"(any)
        : "r"(name), "r"(threads), "r"(static_cast<int>(flag))
        : "memory");
    return any != 0;
}

__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit_group() {
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

// Waits until at most kPending committed groups of this warpgroup are pending.
template <int kPending>
__device__ __forceinline__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}

// --- global memory ---------------------------------------------------------------------------------

// Adds four floats to global memory; the order among threads is not defined.
__device__ __forceinline__ void red_add_128(float* target, float x, float y, float z, float w) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"l"(
                     __cvta_generic_to_global(target)),
                 "f"(x), "f"(y), "f"(z), "f"(w)
                 : "memory");
}

// Stores four 8x8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void stmatrix_x4(uint32_t shared, const uint32_t* in) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(shared),
                 "r"(in[0]), "r"(in[1]), "r"(in[2]), "r"(in[3])
                 : "memory");
}

// --- conversions ---------------------------------------------------------------------------------

// Converts four floats to e4m3, the first in the lowest byte; saturates at 448, and NaN stays NaN.
__device__ __forceinline__ uint32_t cvt_e4m3x4(float a, float b, float c, float d) {
    uint32_t packed;
    asm("{\n"
        ".reg .b16 low, high;\n"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
        "mov.b32 %0, {low, high};\n"
        "}\n"
        : "=r"(packed)
        : "f"(a), "f"(b), "f"(c), "f"(d));
    return packed;
}

}  // namespace flashbench::cuda::sm90::ptx
