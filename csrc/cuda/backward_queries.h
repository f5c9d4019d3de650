// The queries that a block of threads takes before and after a backward kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../attention.h"

namespace flashbench::cuda {

// A grid has a block of threads for each tile of queries of each head: (batch, heads, tiles).
struct QueryBlock {
    int64_t in_all;  // the tile's index among those of all heads
    int first_row;
    int head;
    int batch;

    __device__ __forceinline__ QueryBlock(const Attention& forward, int queries)
        : in_all(blockIdx.x) {
        const unsigned tiles = (static_cast<unsigned>(forward.q_len) + queries - 1) / queries;
        const auto heads = static_cast<unsigned>(forward.heads);
        const unsigned in_heads = blockIdx.x / tiles;
        first_row = static_cast<int>((blockIdx.x - in_heads * tiles) * queries);
        batch = static_cast<int>(in_heads / heads);
        head = static_cast<int>(in_heads - batch * heads);
    }
};

}  // namespace flashbench::cuda
