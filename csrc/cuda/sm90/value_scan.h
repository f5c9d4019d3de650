// The producer's warps that issue no copies: look for NaN and infinity in V where the causal mask cuts it, before the
// consumers get it (kernel.h says why).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../nonfinite.h"
#include "../types.h"
#include "ptx.h"
#include "tile.h"
#include "tile_scheduler.h"

namespace flashbench::cuda::sm90 {

// One lane of each scanning warp arrives, so that no warp falls behind the consumers by a whole phase.
__device__ __forceinline__ void pass_on(uint32_t value_clean) {
    if (threadIdx.x >= kWarpSize && threadIdx.x % kWarpSize == 0) {
        ptx::mbarrier_arrive(value_clean);
    }
}

// Zeroes every NaN and infinity of the values at `values`, in shared memory; nonzero for a thread that met one.
// Several chunks at once: the time of one load after another would be added to that of the copy, and the buffers be
// refilled later.
template <typename Tile>
__device__ __forceinline__ Pair clean_values(uint32_t values, int scanner) {
    using T = typename Tile::Type;
    constexpr int kStep = kScannerThreads * kChunkBytes;
    constexpr int kAtOnce = 3;  // by the producer's registers
    Pair found = 0;
#pragma unroll 1
    for (int at = scanner * kChunkBytes; at < Tile::kKeyBytes; at += kAtOnce * kStep) {
        uint4 chunks[kAtOnce] = {};
        Pair bits = 0;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            if (at + i * kStep < Tile::kKeyBytes) {
                chunks[i] = ptx::ld_shared_128(values + at + i * kStep);
            }
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            bits |= nonfinite_bits<T>(chunks[i]);
        }
        found |= bits;
        // Read again: the producer has no registers to keep them for what seldom happens.
        const int end = bits == 0 ? 0 : min(at + kAtOnce * kStep, Tile::kKeyBytes);
#pragma unroll 1
        for (int place = at; place < end; place += kStep) {
            const uint4 chunk = ptx::ld_shared_128(values + place);
            ptx::st_shared_128(values + place, finite_or_zero<T>(chunk));
        }
    }
    if (found != 0) {
        ptx::fence_proxy_async();
    }
    return found;
}

// Run by the warps that do not issue, causal only: pass V on to the consumers block by block; where it
// contains masked keys, zero every NaN and infinity first and report whether there was one.
template <typename Tile>
__device__ __forceinline__ void scan_values(const Launch& launch, const Shared<Tile>& shared) {
    const int scanner = threadIdx.x - kWarpSize;
    TileScheduler<Tile> scheduler{launch};
    Ring<Tile::kStages> value;
    for (Work work; scheduler.next(work);) {
        for (int block = work.blocks - 1; block >= 0; --block) {
            ptx::mbarrier_wait(shared.value_full(value.stage), value.parity);
            if (block >= work.first_diagonal) {
                const Pair found = clean_values<Tile>(shared.value(value.stage), scanner);
                const bool any = ptx::bar_red_or(kScannerBarrier, kScannerThreads, found != 0);
                if (scanner == 0) {
                    ptx::st_shared_32(shared.nonfinite_flag(value.stage), any);
                }
            }
            pass_on(shared.value_clean(value.stage));
            value.advance();
        }
    }
}

}  // namespace flashbench::cuda::sm90
