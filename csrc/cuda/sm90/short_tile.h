// The shape of a short tile, its layout in shared memory, and a warpgroup's arithmetic on its 64 rows.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../constants.h"
#include "../nonfinite.h"
#include "../rows.h"
#include "../types.h"
#include "ptx.h"
#include "softmax.h"
#include "wgmma.h"

namespace flashbench::cuda::sm90 {

// 64 query rows, computed by `groups` warpgroups in each of the `cluster` blocks of threads of a
// cluster, each with its own blocks of `keys`. `blocks_per_sm` limits the registers. If no row sees more
// than the first `few_keys` of a block, only these are computed. `late_bases`: a row's base moves only
// where a score reaches a limit, as in softmax.h.
template <typename T, int head_dim, int keys, int groups, int cluster, int blocks_per_sm,
          int few_keys = keys, int late_bases = 0>
struct ShortTile {
    using Type = T;
    static constexpr int kHeadDim = head_dim;
    static constexpr int kRows = 64;
    static constexpr int kKeys = keys;
    static constexpr int kFewKeys = few_keys;
    static constexpr int kGroups = groups;
    static constexpr int kCluster = cluster;
    static constexpr int kBlocksPerSm = blocks_per_sm;
    static constexpr bool kLateBases = late_bases != 0;
    static constexpr int kGroupThreads = 128;
    static constexpr int kThreads = groups * kGroupThreads;
    static constexpr int kParts = groups * cluster;

    // A row is cut into boxes of 64 dims (128 bytes, the width of the swizzle); each box is stored
    // for all rows before the next one.
    static constexpr int kBoxDims = 64;
    static constexpr int kBoxes = head_dim / kBoxDims;
    static constexpr int kSwizzleBytes = kBoxDims * kElementBytes;
    static_assert(head_dim % kBoxDims == 0 && keys % 16 == 0 && few_keys % 16 == 0);

    static constexpr int kQueryBytes = kRows * head_dim * kElementBytes;
    static constexpr int kKeyBytes = keys * head_dim * kElementBytes;  // of K or V, one block

    // Each block of a cluster merges this many rows: the parts of all groups, in fragments of 16 rows
    // in accumulator layout (fp32), and a float2 per row.
    static constexpr int kOwnRows = kRows / cluster;
    static constexpr int kFragmentBytes = 16 * head_dim * static_cast<int>(sizeof(float));
    static constexpr int kPartBytes = kOwnRows / 16 * kFragmentBytes;
    static constexpr int kStatisticsBytes = kOwnRows * static_cast<int>(sizeof(float2));
    static constexpr int kMergeBytes =
        kParts == 1 ? 0 : kParts * (kPartBytes + kStatisticsBytes);
    // The bytes that come from the other blocks.
    static constexpr int kReceivedBytes = kMergeBytes / cluster * (cluster - 1);
    static_assert(kOwnRows % 16 == 0);

    static constexpr int kTileBytes = kQueryBytes + 2 * groups * kKeyBytes;
    static constexpr int kBarrierOffset = kTileBytes + kMergeBytes;
    static constexpr int kBarriers = 2 + 2 * groups;
    static constexpr int kSharedBytes = kBarrierOffset + kBarriers * 8;
    // An SM has 228 KB; each block takes one more KB of it.
    static_assert(blocks_per_sm * (kSharedBytes + 1024) <= 228 * 1024);
};

// The 32-bit shared-memory addresses of a tile's parts.
template <typename Tile>
struct ShortShared {
    uint32_t base;

    __device__ __forceinline__ uint32_t query() const { return base; }
    __device__ __forceinline__ uint32_t key(int group) const {
        return base + Tile::kQueryBytes + 2 * group * Tile::kKeyBytes;
    }
    __device__ __forceinline__ uint32_t value(int group) const {
        return key(group) + Tile::kKeyBytes;
    }
    __device__ __forceinline__ uint32_t merge() const { return base + Tile::kTileBytes; }
    // mbarriers; each completes when the data that it is named after has arrived.
    __device__ __forceinline__ uint32_t query_full() const { return base + Tile::kBarrierOffset; }
    __device__ __forceinline__ uint32_t merge_full() const { return query_full() + 8; }
    __device__ __forceinline__ uint32_t key_full(int group) const {
        return query_full() + 16 + group * 16;
    }
    __device__ __forceinline__ uint32_t value_full(int group) const { return key_full(group) + 8; }
};

// 64 rows, spread over the lanes as in wgmma.h: a lane has two rows ("halves"), lane / 4 and the one 8
// below, of each warp's 16.
template <typename Tile>
struct ShortPart {
    using T = typename Tile::Type;
    static constexpr int kKeys = Tile::kKeys;
    static constexpr int kHeadDim = Tile::kHeadDim;

    float out[kHeadDim / 2];
    float row_max[2];  // the base: the largest score so far * scale_log2, or with late bases a bit less
    float row_sum[2];  // this lane's part
    int limit;         // of late bases: below it, none moves
    int lane;
    int first_position;  // of the warp's first row: the last key that it sees, if causal

    __device__ __forceinline__ ShortPart(int lane, int first_position)
        : limit(kNoLimit), lane(lane), first_position(first_position) {
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) {
            out[i] = 0.0f;
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            row_max[half] = -INFINITY;
            row_sum[half] = 0.0f;
        }
    }

    __device__ __forceinline__ int position(int half) const {
        return first_position + half * 8 + lane / 4;
    }

    // scores = Q K^T, for the first 2 * count keys of a block.
    template <int count>
    __device__ __forceinline__ void multiply_keys(float (&scores)[count], uint32_t query,
                                                  uint32_t key) const {
        const SharedOperand<Tile::kSwizzleBytes, 16> a(query);
        const SharedOperand<Tile::kSwizzleBytes, 16> b(key);
        ptx::wgmma_fence();
#pragma unroll
        for (int dim = 0; dim < kHeadDim; dim += 16) {
            const int box = dim / Tile::kBoxDims;
            const int offset = dim % Tile::kBoxDims * kElementBytes;
            Wgmma<T, 2 * count>::ss(scores, a.at(box * Tile::kRows * Tile::kSwizzleBytes + offset),
                                    b.at(box * kKeys * Tile::kSwizzleBytes + offset), dim > 0);
        }
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<0>();
        pin(scores);
    }

    // out += P V, for the first 4 * count keys.
    template <int count>
    __device__ __forceinline__ void multiply_values(const Pair (&probabilities)[count],
                                                    uint32_t value) {
        const SharedOperand<Tile::kSwizzleBytes, kKeys * Tile::kSwizzleBytes> b(value);
        ptx::wgmma_fence();
#pragma unroll
        for (int block = 0; block < count / 4; ++block) {
            Wgmma<T, kHeadDim>::rs(out, probabilities + 4 * block,
                                   b.at(block * 16 * Tile::kSwizzleBytes));
        }
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<0>();
        pin(out);
    }

    // Hides the keys from `key_count` on and, if causal, those after each row's own position.
    template <int count>
    __device__ __forceinline__ void mask(float (&scores)[count], int first_key, int key_count,
                                         bool causal) const {
        // Every row of the warp sees the keys before this one.
        const int seen = (causal ? min(key_count, first_position + 1) : key_count) - first_key;
#pragma unroll
        for (int block = 0; block < count / 8; ++block) {
            if (16 * block + 16 <= seen) {
                continue;
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int end = causal ? min(key_count, position(half) + 1) : key_count;
                const int left = end - first_key - 2 * (lane % 4);
                hide_columns(scores, half, left, 2 * block, 2 * block + 2);
            }
        }
    }

    // scores -> probabilities relative to the largest score so far; `out` and the sums follow it.
    template <int count>
    __device__ __forceinline__ void softmax(float (&scores)[count], float scale_log2) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int e = 2 * half;
            const float largest = largest_of_row(scores, half);

            const float old_max = row_max[half];
            row_max[half] = fmaxf(old_max, largest * scale_log2);
            const float base = finite_base(half);
            const float rescale = ptx::ex2(old_max - base);
            float sum = 0.0f;
            float other_sum = 0.0f;
#pragma unroll
            for (int n = 0; n < count / 4; ++n) {
                const int i = 4 * n + e;
                scores[i] = ptx::ex2(fmaf(scores[i], scale_log2, -base));
                scores[i + 1] = ptx::ex2(fmaf(scores[i + 1], scale_log2, -base));
                sum += scores[i];
                other_sum += scores[i + 1];
            }
            row_sum[half] = row_sum[half] * rescale + (sum + other_sum);
#pragma unroll
            for (int i = e; i < kHeadDim / 2; i += 4) {
                out[i] *= rescale;
                out[i + 1] *= rescale;
            }
        }
    }

    // The same relative to a late base.
    template <int count>
    __device__ __forceinline__ void softmax_late(float (&scores)[count], float scale_log2) {
        if (__any_sync(0xffffffffu, reaches(scores, limit))) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float old_base = row_max[half];
                const float new_max = largest_of_row(scores, half) * scale_log2;
                row_max[half] = new_max > old_base + kBaseSlack ? new_max : old_base;
                const float rescale = ptx::ex2(old_base - finite_base(half));
                row_sum[half] *= rescale;
#pragma unroll
                for (int i = 2 * half; i < kHeadDim / 2; i += 4) {
                    out[i] *= rescale;
                    out[i + 1] *= rescale;
                }
            }
            limit = limit_of(row_max, scale_log2);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float base = finite_base(half);
            float sum = 0.0f;
            float other_sum = 0.0f;
#pragma unroll
            for (int n = 0; n < count / 4; ++n) {
                const int i = 4 * n + 2 * half;
                scores[i] = ptx::ex2(fmaf(scores[i], scale_log2, -base));
                scores[i + 1] = ptx::ex2(fmaf(scores[i + 1], scale_log2, -base));
                sum += scores[i];
                other_sum += scores[i + 1];
            }
            row_sum[half] += sum + other_sum;
        }
    }

    // Any finite base does while all scores are -inf; -inf - (-inf) would be NaN.
    __device__ __forceinline__ float finite_base(int half) const {
        return row_max[half] == -INFINITY ? 0.0f : row_max[half];
    }

    // The accumulators of 16 keys are the operand of the next product.
    template <int count>
    __device__ __forceinline__ void pack(const float (&scores)[count],
                                         Pair (&probabilities)[count / 2]) const {
#pragma unroll
        for (int i = 0; i < count / 2; ++i) {
            probabilities[i] = Element<T>::pack(scores[2 * i], scores[2 * i + 1]);
        }
    }

    // Adds the NaN and infinite values of a diagonal block, which were zeroed in shared memory, to
    // the rows that see them.
    __device__ __forceinline__ void add_nonfinite_values(const Rows<const T>& values,
                                                         int first_key) {
        const int end_key = min(first_key + kKeys, values.count);
        cuda::add_nonfinite_values<kHeadDim, 2>(
            values, first_key, end_key, lane, [this](int half) { return position(half); },
            [this](int half, int n, int i) -> float& { return out[4 * n + 2 * half + i]; });
    }
};

}  // namespace flashbench::cuda::sm90
