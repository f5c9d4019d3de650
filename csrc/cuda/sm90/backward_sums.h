// What all backward kernels share: names of barriers, and where dk and dv of a block of keys go, to their
// tensors or, if blocks share a group, to scratch memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../backward_walk.h"
#include "../constants.h"
#include "../rows.h"
#include "epilogue.h"
#include "softmax.h"
#include "tile.h"

namespace flashbench::cuda::sm90 {

// Names of bar_sync; 0 is __syncthreads.
constexpr int kGradientsBarrier = 1;  // four: dS is in shared memory, or has been read
constexpr int kConsumerBarrier = 5;   // + consumer: its threads

enum class KeySum { dk, dv };

// Where the parts of a consumer's dk or dv are.
template <typename Tile>
__device__ __forceinline__ float* parts_of_keys(const BackwardPlan& plan, int head, int key_block,
                                                KeySum which, int consumer) {
    const int64_t block = static_cast<int64_t>(head) * plan.key_blocks + key_block;
    return plan.sums + ((block * 2 + static_cast<int>(which)) * Tile::kConsumers + consumer) *
                           plan.parts * (kGroupRows * Tile::kHeadDim);
}

// The rows of a head's dk or dv, from `first_dim` on.
template <typename T, KeySum which>
__device__ __forceinline__ Rows<T> rows_of_keys(const BackwardPlan& plan, int batch, int kv_head,
                                                int first_dim) {
    Rows<T> rows;
    if constexpr (which == KeySum::dk) {
        rows = rows_of<T>(plan.dk, plan.dk_strides, batch, kv_head, plan.k_len, plan.head_dim,
                          plan.dk_vectors);
    } else {
        rows = rows_of<T>(plan.dv, plan.dv_strides, batch, kv_head, plan.k_len, plan.head_dim,
                          plan.dv_vectors);
    }
    rows.first += first_dim * rows.dim_stride;
    rows.head_dim -= first_dim;
    return rows;
}
template <KeySum which>
__device__ __forceinline__ float scale_of_keys(const BackwardPlan& plan) {
    return which == KeySum::dk ? plan.scale : 1.0f;
}

// Stores dk or dv of a consumer's keys, from `first_dim` on.
template <typename Tile, KeySum which, typename Consumer, int count>
__device__ __forceinline__ void store_sum(const Consumer& of, const KeyBlock& keys,
                                          const float (&sum)[count], int first_dim) {
    const BackwardPlan& plan = of.plan;
    if (keys.parts > 1) {
        const int head = keys.batch * plan.kv_heads + keys.kv_head;
        float* const target = parts_of_keys<Tile>(plan, head, keys.index, which, of.consumer) +
                              (keys.part * Tile::kHeadDim + first_dim) * kGroupRows + 4 * of.thread;
#pragma unroll
        for (int i = 0; i < count; i += 4) {
            *reinterpret_cast<float4*>(target + i * kWarpgroup) =
                make_float4(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
        }
        return;
    }
    Rows<typename Tile::Type> rows =
        rows_of_keys<typename Tile::Type, which>(plan, keys.batch, keys.kv_head, first_dim);
    RowState state;
    state.warp = of.warp;
    state.lane = of.lane;
    store_scaled_rows(sum, scale_of_keys<which>(plan), rows, state, of.first_key());
}

}  // namespace flashbench::cuda::sm90
