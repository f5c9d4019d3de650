// Forward attention for few query tiles: the warps of a block split the keys of a tile and work in
// parallel.
//
// At small sizes time is latency: a block that loops over the keys waits for each step of each block of
// keys. Here each of n groups of warps takes every n-th block of keys, usually just one: Q, K and V are
// requested at once, without a loop. The groups' results (output, base and sum of every row) are merged
// through shared memory in a fixed order. Query tiles are small, so that every SM has a block.
//
// Products are mma.sync and copies cp.async: TMA and wgmma take longer to start than a tile this small
// takes in all. NaN and infinity as in ../sm80/kernel.h; both use the arithmetic of ../warp_tile.h. Tiles,
// registers and shared memory are in split_launch.h.
//
// What each step gained on an H200, bf16, full, in us: 1,1,128,64 and 1,8,197,64 (SDPA: 5.5, 7.5;
// CUDA-graph replays)
//
//   the sm80 kernel of then                                          3.63
//   keys split among four groups of warps                            3.57
//   32-bit divisions before the first copy, K fragments as mma
//     wants them                                                     3.30   4.55
//   64 keys a group instead of 128 where there are more than 128     3.30   4.22
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../../attention.h"
#include "../constants.h"
#include "../ptx.h"
#include "../quad.h"
#include "../rows.h"
#include "../shared_tile.h"
#include "../warp_tile.h"

namespace flashbench::cuda::sm90 {

// `rows` query rows, one warp per 16; `groups` of such warps. A group has one buffer of `keys` each for
// K and V.
template <typename T, int head_dim, int rows, int keys, int groups>
struct SplitTile {
    using Warp = MmaTile<T, head_dim, rows, keys, rows / 16, 1, false>;
    static constexpr int kHeadDim = head_dim;
    static constexpr int kRows = rows;
    static constexpr int kKeys = keys;
    static constexpr int kGroups = groups;
    static constexpr int kGroupThreads = rows / 16 * kWarpSize;
    static constexpr int kThreads = groups * kGroupThreads;

    static constexpr int kQueryBytes = kRows * head_dim * kElementBytes;
    static constexpr int kKeyBytes = keys * head_dim * kElementBytes;
    // A group's output (fp32) replaces its K and V.
    static constexpr int kPartBytes = kRows * head_dim * static_cast<int>(sizeof(float));
    static constexpr int kGroupBytes = 2 * kKeyBytes > kPartBytes ? 2 * kKeyBytes : kPartBytes;
    // Base and sum of each row and group.
    static constexpr int kStatisticsBytes = groups * kRows * static_cast<int>(sizeof(float2));
    static constexpr int kSharedBytes = kQueryBytes + groups * kGroupBytes + kStatisticsBytes;
};

struct SplitLaunch {
    Attention problem;
    float scale_log2;  // scale * log2(e), positive
    unsigned heads;    // 32 bits, because the copies wait for a division, which is slow with 64
    unsigned heads_a_kv_head;
    InVectors in_vectors;  // as in Rows
};

// Merges the groups and stores the rows, eight columns per thread at a time.
template <typename Tile, typename T>
__device__ __forceinline__ void merge_and_store(const Rows<T>& rows, int first_row,
                                                const unsigned char* parts,
                                                const float2* statistics) {
    constexpr int kChunks = Tile::kHeadDim / kChunkElements;
#pragma unroll 1
    for (int i = threadIdx.x; i < Tile::kRows * kChunks; i += Tile::kThreads) {
        const int row = i / kChunks;
        const int column = i % kChunks * kChunkElements;
        if (first_row + row >= rows.count || column >= rows.head_dim) {
            continue;
        }
        float weights[Tile::kGroups];
        float largest = -INFINITY;
#pragma unroll
        for (int group = 0; group < Tile::kGroups; ++group) {
            largest = fmaxf(largest, statistics[group * Tile::kRows + row].x);
        }
        const float base = largest == -INFINITY ? 0.0f : largest;
        float total = 0.0f;
#pragma unroll
        for (int group = 0; group < Tile::kGroups; ++group) {
            const float2 statistic = statistics[group * Tile::kRows + row];
            weights[group] = ptx::ex2(statistic.x - base);
            total += statistic.y * weights[group];
        }
        const float inverse = 1.0f / total;
        float sum[kChunkElements] = {};
#pragma unroll
        for (int group = 0; group < Tile::kGroups; ++group) {
            const auto* part = reinterpret_cast<const float4*>(
                parts + group * Tile::kGroupBytes +
                part_offset<Tile::kHeadDim>(row, column) * sizeof(float));
            const float4 low = part[0];
            const float4 high = part[1];
            const float weight = weights[group] * inverse;
            sum[0] += low.x * weight;
            sum[1] += low.y * weight;
            sum[2] += low.z * weight;
            sum[3] += low.w * weight;
            sum[4] += high.x * weight;
            sum[5] += high.y * weight;
            sum[6] += high.z * weight;
            sum[7] += high.w * weight;
        }
        const uint4 chunk =
            make_uint4(Element<T>::pack(sum[0], sum[1]), Element<T>::pack(sum[2], sum[3]),
                       Element<T>::pack(sum[4], sum[5]), Element<T>::pack(sum[6], sum[7]));
        T* target = rows.first + (first_row + row) * rows.seq_stride;
        if (rows.vectors) {
            *reinterpret_cast<uint4*>(target + column) = chunk;
        } else {
            scatter_chunk(target + column * rows.dim_stride, rows.dim_stride, chunk);
        }
    }
}

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    forward_split(const __grid_constant__ SplitLaunch launch) {
    using Warp = typename Tile::Warp;
    using T = typename Warp::Type;
    constexpr int kHeadDim = Tile::kHeadDim;
    constexpr int kKeys = Tile::kKeys;
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const Attention& problem = launch.problem;
    const int q_len = static_cast<int>(problem.q_len);
    const int k_len = static_cast<int>(problem.k_len);
    const bool causal = problem.causal;
    const int causal_offset = static_cast<int>(problem.causal_offset);

    // A column of the grid is a head. If causal, the tiles with the most keys come first.
    const int tile = static_cast<int>(gridDim.y - 1 - blockIdx.y);
    const int batch = static_cast<int>(blockIdx.x / launch.heads);
    const int head = static_cast<int>(blockIdx.x % launch.heads);
    const int kv_head = static_cast<int>(static_cast<unsigned>(head) / launch.heads_a_kv_head);
    const auto query = query_rows<T>(problem, batch, head, launch.in_vectors.q);
    const auto key = key_rows<T>(problem, batch, kv_head, launch.in_vectors.k);
    const auto value = value_rows<T>(problem, batch, kv_head, launch.in_vectors.v);

    const int first_row = tile * Tile::kRows;
    const int end_row = min(first_row + Tile::kRows, q_len);
    const int end_key = causal ? min(k_len, end_row + causal_offset) : k_len;
    const int first_position = first_row + causal_offset;
    const int group = threadIdx.x / Tile::kGroupThreads;
    const unsigned thread = threadIdx.x % Tile::kGroupThreads;
    const int lane = static_cast<int>(thread % kWarpSize);
    const int warp_row = static_cast<int>(thread / kWarpSize) * Warp::kWarpRows;
    const int warp_last_position = first_position + warp_row + Warp::kWarpRows - 1;
    constexpr int kStride = Tile::kGroups * kKeys;

    const uint32_t shared_query = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
    unsigned char* parts = shared_memory + Tile::kQueryBytes;
    const uint32_t shared_key = shared_query + Tile::kQueryBytes + group * Tile::kGroupBytes;
    const uint32_t shared_value = shared_key + Tile::kKeyBytes;
    const auto load = [&](uint32_t shared, const Rows<const T>& rows, int first) {
        if (first < end_key) {
            load_tile<kHeadDim, kKeys, Tile::kGroupThreads>(shared, rows, first, thread);
        }
        ptx::cp_async_commit_group();
    };

    constexpr int kQueryThreads =
        Tile::kThreads < Tile::kRows * 8 ? Tile::kThreads : Tile::kRows * 8;
    if (threadIdx.x < kQueryThreads) {
        load_tile<kHeadDim, Tile::kRows, kQueryThreads>(shared_query, query, first_row,
                                                        threadIdx.x);
    }
    load(shared_key, key, group * kKeys);
    load(shared_value, value, group * kKeys);
    WarpTile<Warp> part(lane, first_position + warp_row,
                              shared_query + warp_row * Swizzle<kHeadDim>::kRowBytes);

    // Every group takes part in every barrier, even without a block left.
    for (int round_key = 0; round_key < end_key; round_key += kStride) {
        const int first_key = round_key + group * kKeys;
        const bool active = first_key < end_key && first_row + warp_row < q_len &&
                            (!causal || first_key <= warp_last_position);
        const bool diagonal = causal && first_key + kKeys - 1 > first_position;
        ptx::cp_async_wait_group<1>();
        __syncthreads();  // K has arrived
        if (active) {
            part.multiply_keys(shared_key);
            if (diagonal || first_key + kKeys > k_len) {
                part.mask(first_key, k_len, causal);
            }
            part.softmax(launch.scale_log2);
        }
        ptx::cp_async_wait_group<0>();
        bool nonfinite = false;
        // A barrier: V has arrived, and every warp is done with K.
        if (causal) {
            nonfinite = __syncthreads_or(
                diagonal && first_key < end_key &&
                zero_copied_nonfinite<kHeadDim, kKeys, Tile::kGroupThreads, T>(shared_value,
                                                                               thread));
        } else {
            __syncthreads();
        }
        load(shared_key, key, first_key + kStride);
        if (active) {
            part.multiply_values(shared_value);
            if (nonfinite && diagonal) {
                part.add_nonfinite_values(value, first_key);
            }
        }
        __syncthreads();  // every warp is done with V
        load(shared_value, value, first_key + kStride);
    }

    // Publish output, base and sum of each row.
    auto* statistics = reinterpret_cast<float2*>(parts + Tile::kGroups * Tile::kGroupBytes);
    auto* own_part = reinterpret_cast<float*>(parts + group * Tile::kGroupBytes);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = warp_row + half * 8 + lane / 4;
        const float sum = quad_sum(part.row_sum[0][half]);
        if (lane % 4 == 0) {
            statistics[group * Tile::kRows + row] = make_float2(part.row_max[0][half], sum);
        }
#pragma unroll
        for (int n = 0; n < kHeadDim / 8; ++n) {
            *reinterpret_cast<float2*>(
                own_part + part_offset<kHeadDim>(row, n * 8 + 2 * (lane % 4))) =
                make_float2(part.out[0][n][2 * half], part.out[0][n][2 * half + 1]);
        }
    }
    __syncthreads();
    merge_and_store<Tile>(out_rows<T>(problem, batch, head, launch.in_vectors.out),
                          first_row, parts, statistics);
}

}  // namespace flashbench::cuda::sm90
