// Merges the results of warpgroups, each with its own part of the keys.
//
// Each block of threads of the cluster owns some of the rows. A warp sends its part of 16 rows (output,
// base and sum) to the block that owns them, in register order, so that stores and loads are whole
// lines. Once all parts have arrived, each block adds up its rows in a fixed order.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../constants.h"
#include "../quad.h"
#include "../rows.h"
#include "../types.h"
#include "ptx.h"
#include "short_tile.h"

namespace flashbench::cuda::sm90 {

// Sends a warp's part of the 16 rows from `row_in_tile` on to the block that owns them, which must be
// ready: by plain stores within this block, otherwise asynchronously.
template <typename Tile>
__device__ __forceinline__ void send_part(const ShortPart<Tile>& part,
                                          const ShortShared<Tile>& shared, int rank, int group,
                                          int row_in_tile) {
    constexpr uint32_t kVector = sizeof(float4);
    constexpr uint32_t kPair = sizeof(float2);
    const int owner = row_in_tile / Tile::kOwnRows;
    const int row_in_own = row_in_tile % Tile::kOwnRows;
    const int index = rank * Tile::kGroups + group;
    const uint32_t fragment = shared.merge() + index * Tile::kPartBytes +
                              row_in_own / 16 * Tile::kFragmentBytes + part.lane * kVector;
    const uint32_t statistics = shared.merge() + Tile::kParts * Tile::kPartBytes +
                                index * Tile::kStatisticsBytes +
                                (row_in_own + part.lane / 4) * kPair;
    const auto send = [&](const auto& store_vector, const auto& store_pair) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float sum = quad_sum(part.row_sum[half]);
            if (part.lane % 4 == 0) {
                store_pair(half * 8 * kPair, make_float2(part.row_max[half], sum));
            }
#pragma unroll
            for (int pair = 0; pair < Tile::kHeadDim / 16; ++pair) {
                const int i = 8 * pair + 2 * half;
                store_vector(
                    (half * (Tile::kHeadDim / 16) + pair) * kWarpSize * kVector,
                    make_float4(part.out[i], part.out[i + 1], part.out[i + 4], part.out[i + 5]));
            }
        }
    };
    if (Tile::kCluster == 1 || owner == rank) {
        send(
            [&](uint32_t at, float4 value) {
                ptx::st_shared_float4(fragment + at, value.x, value.y, value.z, value.w);
            },
            [&](uint32_t at, float2 value) { ptx::st_shared_64(statistics + at, value); });
    } else {
        const uint32_t barrier = ptx::mapa(shared.merge_full(), owner);
        const uint32_t far_fragment = ptx::mapa(fragment, owner);
        const uint32_t far_statistics = ptx::mapa(statistics, owner);
        send(
            [&](uint32_t at, float4 value) {
                ptx::st_async_128(far_fragment + at, barrier, value);
            },
            [&](uint32_t at, float2 value) {
                ptx::st_async_64(far_statistics + at, barrier, value);
            });
    }
}

// Adds up and stores the rows that this block owns, from `first_row` on: 8 rows per warp, or a part of
// their columns if there are more warps.
template <typename Tile, typename T>
__device__ __forceinline__ void add_parts(const Rows<T>& rows, int first_row,
                                          const unsigned char* merge) {
    constexpr int kWarps = Tile::kThreads / kWarpSize;
    constexpr int kRowSteps = Tile::kOwnRows / 8;
    constexpr int kColumnSteps = Tile::kHeadDim / 16;
    constexpr int kShares = kWarps > kRowSteps ? kWarps / kRowSteps : 1;  // of a row's columns
    constexpr int kShareSteps = (kColumnSteps + kShares - 1) / kShares;
    static_assert(kWarps % kRowSteps == 0 || kRowSteps % kWarps == 0);
    const auto* statistics =
        reinterpret_cast<const float2*>(merge + Tile::kParts * Tile::kPartBytes);
    const int lane = threadIdx.x % kWarpSize;
    const int warp = threadIdx.x / kWarpSize;
    const int first_step = warp % kShares * kShareSteps;
    if (first_step >= kColumnSteps) {
        return;
    }
#pragma unroll 1
    for (int row_step = warp / kShares; row_step < kRowSteps; row_step += kWarps / kShares) {
        const int row_in_own = row_step * 8 + lane / 4;
        float weights[Tile::kParts];
        float sums[Tile::kParts];
        float largest = -INFINITY;
#pragma unroll
        for (int part = 0; part < Tile::kParts; ++part) {
            const float2 statistic = statistics[part * Tile::kOwnRows + row_in_own];
            weights[part] = statistic.x;
            sums[part] = statistic.y;
            largest = fmaxf(largest, statistic.x);
        }
        const float base = largest == -INFINITY ? 0.0f : largest;
        float total = 0.0f;
#pragma unroll
        for (int part = 0; part < Tile::kParts; ++part) {
            weights[part] = ptx::ex2(weights[part] - base);
            total += sums[part] * weights[part];
        }
        const float inverse = 1.0f / total;
        // A fragment has the upper 8 rows first, then the lower 8.
        const auto* source = reinterpret_cast<const float4*>(merge) +
                             (row_step * kColumnSteps + first_step) * kWarpSize + lane;
        float sum[kShareSteps][4] = {};
#pragma unroll
        for (int part = 0; part < Tile::kParts; ++part) {
#pragma unroll
            for (int step = 0; step < kShareSteps; ++step) {
                const float4 values =
                    source[part * (Tile::kPartBytes / sizeof(float4)) + step * kWarpSize];
                sum[step][0] += values.x * weights[part];
                sum[step][1] += values.y * weights[part];
                sum[step][2] += values.z * weights[part];
                sum[step][3] += values.w * weights[part];
            }
        }
        const int row = first_row + row_in_own;
        T* target = rows.first + row * rows.seq_stride;
#pragma unroll
        for (int i = 0; i < 2 * kShareSteps; ++i) {
            const int column = first_step * 16 + i * 8 + 2 * (lane % 4);
            if (row >= rows.count || column >= rows.head_dim) {
                continue;
            }
            const float* values = sum[i / 2] + i % 2 * 2;
            const Pair pair = Element<T>::pack(values[0] * inverse, values[1] * inverse);
            if (rows.vectors) {
                *reinterpret_cast<Pair*>(target + column) = pair;
            } else {
                auto* bits = reinterpret_cast<uint16_t*>(target);
                bits[column * rows.dim_stride] = static_cast<uint16_t>(pair);
                bits[(column + 1) * rows.dim_stride] = static_cast<uint16_t>(pair >> 16);
            }
        }
    }
}

}  // namespace flashbench::cuda::sm90
