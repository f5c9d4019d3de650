// Wrappers of the copy engine's PTX instructions (TMA), named after the instruction. Shared-memory addresses are
// 32-bit, as from __cvta_generic_to_shared.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace flashbench::cuda::sm90::ptx {

__device__ __forceinline__ void prefetch_tensormap(const CUtensorMap* map) {
    asm volatile("prefetch.tensormap [%0];\n" ::"l"(reinterpret_cast<uint64_t>(map)) : "memory");
}

// Copies the box at (dim, row, head, batch) to shared memory, with zeros past the tensor's end, and
// reports its bytes to `barrier`. Issued by one thread.
__device__ __forceinline__ void cp_async_bulk_tensor_4d(uint32_t shared, const CUtensorMap* map,
                                                        uint32_t barrier, int dim, int row,
                                                        int head, int batch) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6}], [%2];\n" ::"r"(shared),
        "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(dim), "r"(row), "r"(head),
        "r"(batch)
        : "memory");
}

// The same for maps of five dimensions: `at` is where the box starts, from the fastest one on.
__device__ __forceinline__ void cp_async_bulk_tensor_5d(uint32_t shared, const CUtensorMap* map,
                                                        uint32_t barrier, const int (&at)[5]) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];\n" ::"r"(shared),
        "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]),
        "r"(at[3]), "r"(at[4])
        : "memory");
}

// The copies above with an L2 cache policy.
__device__ __forceinline__ void cp_async_bulk_tensor_4d(uint32_t shared, const CUtensorMap* map,
                                                        uint32_t barrier, int dim, int row,
                                                        int head, int batch, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;\n" ::"r"(shared),
        "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(dim), "r"(row), "r"(head),
        "r"(batch), "l"(policy)
        : "memory");
}

__device__ __forceinline__ void cp_async_bulk_tensor_5d(uint32_t shared, const CUtensorMap* map,
                                                        uint32_t barrier, const int (&at)[5],
                                                        uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;\n" ::"r"(shared),
        "l"(reinterpret_cast<uint64_t>(map)), "r"(barrier), "r"(at[0]), "r"(at[1]), "r"(at[2]),
        "r"(at[3]), "r"(at[4]), "l"(policy)
        : "memory");
}

// An L2 cache policy: these lines go before others.
__device__ __forceinline__ uint64_t evict_first_policy() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Copies `bytes` from global to shared memory and reports them to `barrier`. Addresses and bytes must be
// multiples of 16. Issued by one thread.
__device__ __forceinline__ void cp_async_bulk(uint32_t shared, const void* global, int bytes,
                                              uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
            "r"(shared),
        "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(barrier)
        : "memory");
}

// Starts to store a box from shared memory at (dim, row, head, batch); elements past the tensor's end are not
// stored. Issued by one thread, after fence_proxy_async of those that wrote the box.
__device__ __forceinline__ void cp_async_bulk_tensor_4d_to_global(const CUtensorMap* map,
                                                                  uint32_t shared, int dim, int row,
                                                                  int head, int batch) {
    asm volatile(
        "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];\n" ::
            "l"(reinterpret_cast<uint64_t>(map)),
        "r"(shared), "r"(dim), "r"(row), "r"(head), "r"(batch)
        : "memory");
}

// Ends a group of this thread's stores.
__device__ __forceinline__ void cp_async_bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
}

// Waits until all but this thread's last `kPending` groups have read shared memory.
template <int kPending>
__device__ __forceinline__ void cp_async_bulk_wait_group_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(kPending) : "memory");
}

}  // namespace flashbench::cuda::sm90::ptx
