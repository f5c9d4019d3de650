// The 64 query rows of a consumer warpgroup and their products, all in registers. softmax.h has their
// softmax, out_boxes.h their stores.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../constants.h"
#include "../nonfinite.h"
#include "../rows.h"
#include "../types.h"
#include "out_boxes.h"
#include "ptx.h"
#include "softmax.h"
#include "tile.h"
#include "tile_scheduler.h"
#include "wgmma.h"

namespace flashbench::cuda::sm90 {

// Spread over the lanes as in wgmma.h: a lane has two rows ("halves"), lane / 4 and the one 8 below.
template <typename Tile>
struct GroupRows {
    using T = typename Tile::Type;
    static constexpr int kKeys = Tile::kKeys;
    static constexpr int kHeadDim = Tile::kHeadDim;

    float scores[kKeys / 2];
    Pair probabilities[kKeys / 4];
    float out[kHeadDim / 2];
    Softmax<T, kKeys> softmax;

    __device__ __forceinline__ void reset_output() {
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) {
            out[i] = 0.0f;
        }
    }

    // Starts scores = Q K^T. `query` is where this warpgroup's rows are.
    __device__ __forceinline__ void issue_scores(uint32_t query, uint32_t key) {
        const SharedOperand<Tile::kSwizzleBytes, 16> a(query);
        const SharedOperand<Tile::kSwizzleBytes, 16> b(key);
#pragma unroll
        for (int dim = 0; dim < kHeadDim; dim += 16) {
            const int box = dim / Tile::kBoxDims;
            const int offset = dim % Tile::kBoxDims * kElementBytes;
            Wgmma<T, kKeys>::ss(scores, a.at(box * Tile::kRows * Tile::kSwizzleBytes + offset),
                                b.at(box * kKeys * Tile::kSwizzleBytes + offset), dim > 0);
        }
        ptx::wgmma_commit_group();
    }

    // Starts out += P V.
    __device__ __forceinline__ void issue_output(uint32_t value) {
        const SharedOperand<Tile::kSwizzleBytes, kKeys * Tile::kSwizzleBytes> b(value);
#pragma unroll
        for (int block = 0; block < kKeys / 16; ++block) {
            Wgmma<T, kHeadDim>::rs(out, probabilities + 4 * block,
                                   b.at(block * 2 * Tile::kAtomBytes));
        }
        ptx::wgmma_commit_group();
    }

    // Hides the keys from `key_count` on and, if causal, those after each row's own position,
    // position_of(row in the group).
    template <typename Position>
    __device__ __forceinline__ void mask(const Position& position_of, int first_key, int key_count,
                                         bool causal) {
        softmax.mask(scores, position_of, first_key, key_count, causal);
    }

    __device__ __forceinline__ void update_base(float scale_log2) {
        softmax.update_base(scores, scale_log2);
    }

    __device__ __forceinline__ void exponentiate(float scale_log2) {
        softmax.template exponentiate<Tile::kRoomy>(scores, probabilities, scale_log2);
    }

    __device__ __forceinline__ void rescale_output() { softmax.rescale_output(out); }

    // Adds the NaN and infinite values of the keys from `first_key` on, which the scanner zeroed, to
    // the rows that see them.
    template <typename Position>
    __device__ __forceinline__ void add_nonfinite_values(const Rows<const T>& values,
                                                         const Position& position_of,
                                                         int first_key, int end_key) {
        cuda::add_nonfinite_values<kHeadDim, 2>(
            values, first_key, end_key, softmax.lane,
            [&](int half) { return position_of(softmax.row_in_group(half)); },
            [&](int half, int n, int i) -> float& { return out[4 * n + 2 * half + i]; });
    }

    // Divides by the sums (each lane has its part of `sums`) and stores, by way of the boxes of its warp. The lane is
    // asked anew, as the loop over keys has no register to spare.
    __device__ __forceinline__ void store(const float (&sums)[2], const Shared<Tile>& shared,
                                          const Launch& launch, int first_row,
                                          const Work& work) const {
        const unsigned thread = ptx::tid_x() - kWarpgroup;  // of the consumers
        const int warp = static_cast<int>(thread / kWarpSize);
        const int lane = static_cast<int>(thread % kWarpSize);
        store_boxes<T, Tile::kOutBoxes, OutBox::kBytes>(
            out, sums, lane, shared.out(warp), launch.out, launch.problem,
            first_row + warp % 4 * OutBox::kRows, work.head, work.batch);
    }
};

}  // namespace flashbench::cuda::sm90
