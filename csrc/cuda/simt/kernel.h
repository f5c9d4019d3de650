// Attention over a few keys, on CUDA cores: the first tokens of a sequence, or a few queries that a mask
// at the top left leaves few keys.
//
// Such a call takes as long as its longest chain of dependent steps; shared memory, barriers and tensor
// cores make that longer. A group of lanes owns a query row, and each lane a chunk of 8 dims of the query,
// the keys, the values and the output. `kKeys` keys and values are requested before the first is used, so
// that the group waits for memory once. Lanes add up their parts of a score by shuffles; every lane adds the
// same pairs, so all have the same bits.
//
// From nine keys on all groups of a block share one row: each takes some of the keys, and what they found is
// merged in the order of the groups, through shuffles and shared memory.
//
// Registers, as ptxas 13.0 reports them for sm_80 and sm_90a, without spills: 48, 48 for one key at once,
// 72, 72 for 4, 118, 109 for 8; 80, 72 and 122, 120 where a block shares a row, with up to 3.8 KB of shared
// memory.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../../attention.h"
#include "../constants.h"
#include "../rows.h"
#include "../types.h"

namespace flashbench::cuda::simt {

constexpr int kThreads = 128;

struct Launch {
    Attention problem;
    unsigned rows;  // of all heads
    bool vectors;   // whether all tensors move in vectors
    float scale_log2;
};

// Where a row is.
struct Place {
    unsigned batch;
    unsigned head;
    unsigned kv_head;
    unsigned row;
};

__device__ __forceinline__ Place place_of(const Attention& problem, unsigned index) {
    const auto q_len = static_cast<unsigned>(problem.q_len);
    const auto heads = static_cast<unsigned>(problem.heads);
    const unsigned any_head = index / q_len;
    const unsigned batch = any_head / heads;
    const unsigned head = any_head - batch * heads;
    const unsigned group = heads / static_cast<unsigned>(problem.kv_heads);
    return {batch, head, head / group, index - any_head * q_len};
}

// A lane's chunk of what a group found in some of a row's keys: the sums of probabilities, relative to the
// largest score, and of values weighted by them.
struct Found {
    float largest;
    float sum;
    float out[kChunkElements];
};

// While all scores are -inf any finite base will do; -inf - (-inf) would be NaN. A row that keeps to them
// ends with 0 / 0, which is NaN too, as it should be.
__device__ __forceinline__ float finite_base(float largest) {
    return largest == -INFINITY ? 0.0f : largest;
}

// Takes kKeys keys from `offset` on, then those `step` keys on, and so on. The keys that the row sees are
// those before `visible`; a lane past the head dim has none. All lanes of a warp make as many rounds, for
// the shuffles.
template <typename T, int kLanes, int kKeys>
__device__ __forceinline__ Found find(const Launch& launch, const Place& place, bool vectors, int column,
                                      int offset, int step, int visible) {
    const Attention& problem = launch.problem;
    const auto keys = key_rows<T>(problem, place.batch, place.kv_head, vectors);
    const auto values = value_rows<T>(problem, place.batch, place.kv_head, vectors);
    const uint4 zeros = make_uint4(0, 0, 0, 0);
    const uint4 query =
        visible > 0 ? load_chunk(query_rows<T>(problem, place.batch, place.head, vectors),
                                 static_cast<int>(place.row), column)
                    : zeros;
    Found found{-INFINITY, 0.0f, {}};
    for (int round = 0; round < problem.k_len; round += step) {
        const int first = round + offset;
        uint4 key_chunks[kKeys];
        uint4 value_chunks[kKeys];
#pragma unroll
        for (int j = 0; j < kKeys; ++j) {
            const bool seen = first + j < visible;
            key_chunks[j] = seen ? load_chunk(keys, first + j, column) : zeros;
            value_chunks[j] = seen ? load_chunk(values, first + j, column) : zeros;
        }
        float scores[kKeys];
        float largest = found.largest;
#pragma unroll
        for (int j = 0; j < kKeys; ++j) {
            float score = dot_of_chunks<T>(query, key_chunks[j]);
#pragma unroll
            for (int distance = 1; distance < kLanes; distance *= 2) {
                score += __shfl_xor_sync(0xffffffffu, score, distance);
            }
            scores[j] = first + j < visible ? score * launch.scale_log2 : -INFINITY;
            largest = fmaxf(largest, scores[j]);
        }
        const float base = finite_base(largest);
        const float rescale = exp2f(found.largest - base);
        found.largest = largest;
        found.sum *= rescale;
#pragma unroll
        for (float& element : found.out) {
            element *= rescale;
        }
#pragma unroll
        for (int j = 0; j < kKeys; ++j) {
            const float probability = exp2f(scores[j] - base);
            found.sum += probability;
            const Pair pairs[] = {value_chunks[j].x, value_chunks[j].y, value_chunks[j].z,
                                  value_chunks[j].w};
#pragma unroll
            for (int i = 0; i < kChunkElements / 2; ++i) {
                const float2 two = Element<T>::unpack(pairs[i]);
                found.out[2 * i] = fmaf(probability, two.x, found.out[2 * i]);
                found.out[2 * i + 1] = fmaf(probability, two.y, found.out[2 * i + 1]);
            }
        }
    }
    return found;
}

// What two groups found, together.
__device__ __forceinline__ Found together(const Found& left, const Found& right) {
    Found both;
    both.largest = fmaxf(left.largest, right.largest);
    const float base = finite_base(both.largest);
    const float left_weight = exp2f(left.largest - base);
    const float right_weight = exp2f(right.largest - base);
    both.sum = fmaf(left_weight, left.sum, right_weight * right.sum);
#pragma unroll
    for (int i = 0; i < kChunkElements; ++i) {
        both.out[i] = fmaf(left_weight, left.out[i], right_weight * right.out[i]);
    }
    return both;
}

// The groups of a warp merge by shuffles, then those of the block through shared memory. All threads call
// it; the result is that of the first group.
template <int kLanes>
__device__ __forceinline__ Found merge(Found found, int lane) {
#pragma unroll
    for (int distance = kLanes; distance < kWarpSize; distance *= 2) {
        Found other;
        other.largest = __shfl_xor_sync(0xffffffffu, found.largest, distance);
        other.sum = __shfl_xor_sync(0xffffffffu, found.sum, distance);
#pragma unroll
        for (int i = 0; i < kChunkElements; ++i) {
            other.out[i] = __shfl_xor_sync(0xffffffffu, found.out[i], distance);
        }
        found = together(found, other);
    }
    constexpr int kWarps = kThreads / kWarpSize;
    __shared__ Found founds[kWarps - 1][kLanes];
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    if (warp > 0 && threadIdx.x % kWarpSize < kLanes) {
        founds[warp - 1][lane] = found;
    }
    __syncthreads();
    if (threadIdx.x < kLanes) {
#pragma unroll
        for (int i = 0; i < kWarps - 1; ++i) {
            found = together(found, founds[i][lane]);
        }
    }
    return found;
}

template <typename T, int kLanes, int kKeys, bool kShare>
__device__ __forceinline__ void attend_row(const Launch& launch, bool vectors) {
    constexpr int kGroups = kThreads / kLanes;
    const Attention& problem = launch.problem;
    const int group = static_cast<int>(threadIdx.x) / kLanes;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const int column = lane * kChunkElements;
    const unsigned index = kShare ? blockIdx.x : blockIdx.x * kGroups + group;
    const Place place = place_of(problem, index);
    const bool mine = index < launch.rows && column < problem.head_dim;
    const int64_t seen = problem.causal ? place.row + problem.causal_offset + 1 : problem.k_len;
    const int visible = mine ? static_cast<int>(min(problem.k_len, seen)) : 0;
    Found found = find<T, kLanes, kKeys>(launch, place, vectors, column, kShare ? group * kKeys : 0,
                                         kShare ? kGroups * kKeys : kKeys, visible);
    if constexpr (kShare) {
        found = merge<kLanes>(found, lane);
    }
    if (!mine || (kShare && group > 0)) {
        return;
    }
    const float weight = 1.0f / found.sum;
    const auto packed = [&](int i) {
        return Element<T>::pack(found.out[2 * i] * weight, found.out[2 * i + 1] * weight);
    };
    const uint4 chunk = make_uint4(packed(0), packed(1), packed(2), packed(3));
    const auto rows = out_rows<T>(problem, place.batch, place.head, vectors);
    T* target = rows.first + place.row * rows.seq_stride + column * rows.dim_stride;
    if (vectors) {
        *reinterpret_cast<uint4*>(target) = chunk;
    } else {
        scatter_chunk(target, rows.dim_stride, chunk);
    }
}

// Branches once on the layout: a branch at each load would keep loads from being issued together.
// kShare: the groups of a block share one row.
template <typename T, int kLanes, int kKeys, bool kShare>
__global__ void __launch_bounds__(kThreads) forward(const __grid_constant__ Launch launch) {
    if (launch.vectors) {
        attend_row<T, kLanes, kKeys, kShare>(launch, true);
    } else {
        attend_row<T, kLanes, kKeys, kShare>(launch, false);
    }
}

}  // namespace flashbench::cuda::simt
