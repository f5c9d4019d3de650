// Forward attention on e4m3 tensors with a scale for each 128 rows (sm_90a): TMA and wgmma.
//
// Roles and overlap are those of kernel.h: a warpgroup with one thread that fetches, and two that
// compute 64 query rows each and take turns issuing products. The differences:
//
// - wgmma takes 8-bit operands only with k contiguous. So V is transposed, with the keys of each 16 in
//   an order that makes the rounded accumulators of Q K^T the operand of P V in place (kernels/fp8.py
//   prepares it). Its dims are ordered so that a lane stores 8 neighbours.
// - The scales of Q and K are folded into the factor of the exponent, that of V into the addition
//   below. No operand is multiplied by a scale, so none is rounded again.
// - The largest score of a row so far has the probability 448 (e4m3's largest), which is exact, and
//   probabilities 2^14.8 times smaller still have all bits. Row sums are of the fp32 probabilities.
// - P V of a block starts from zero and is added to the output in fp32. The tensor cores add fp8
//   products with about 14 bits (DeepSeek-V3's report): accumulating P V there over all keys gave 30
//   times the error of the quantisation over 4k keys, 153 times over 16k, for V with mean 1.
//
// Tiles, stages, registers and shared memory are in fp8_tile.h; times, errors and what was tried in
// docs/lab/cuda-kernels.md.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "../constants.h"
#include "../quad.h"
#include "../types.h"
#include "fp8_tile.h"
#include "ptx.h"
#include "softmax.h"
#include "tma.h"
#include "wgmma.h"
#include "wgmma_fp8.h"

namespace flashbench::cuda::sm90::fp8 {

constexpr float kLog2Largest = 8.807354922f;  // of 448

// Run by one warp, so that its state is uniform; one thread issues. V follows a block after K, as the
// consumers use it; blocks go from the last to the first.
template <typename Tile>
__device__ __forceinline__ void produce(const Launch& launch, const Shared<Tile>& shared) {
    const auto copy = [](uint32_t to, const CUtensorMap* map, uint32_t barrier, int column, int row,
                         int head) {
        if (threadIdx.x != 0) {
            return;
        }
        ptx::mbarrier_arrive_expect_tx(barrier, Tile::kKeyBytes);
        ptx::cp_async_bulk_tensor_4d(to, map, barrier, column, row, head, 0);
    };
    static_assert(Tile::kQueryBytes == Tile::kKeyBytes);
    ptx::prefetch_tensormap(&launch.query);
    ptx::prefetch_tensormap(&launch.key);
    ptx::prefetch_tensormap(&launch.value);
    TileScheduler<Tile> scheduler{launch};
    Ring<Tile::kStages> key;
    Ring<Tile::kStages> value;
    int query_parity = 0;
    for (Work work; scheduler.next(work);) {
        for (int block = work.blocks - 1; block >= -1; --block) {
            if (block >= 0) {
                ptx::mbarrier_wait(shared.key_empty(key.stage), key.parity ^ 1);
                copy(shared.key(key.stage), &launch.key, shared.key_full(key.stage), 0,
                     block * kKeys, work.kv_head);
                key.advance();
            }
            if (block == work.blocks - 1) {
                ptx::mbarrier_wait(shared.query_empty(), query_parity ^ 1);
                copy(shared.query(), &launch.query, shared.query_full(), 0, work.first_row,
                     work.head);
                query_parity ^= 1;
            } else {
                ptx::mbarrier_wait(shared.value_empty(value.stage), value.parity ^ 1);
                copy(shared.value(value.stage), &launch.value, shared.value_full(value.stage),
                     (block + 1) * kKeys, 0, work.kv_head);
                value.advance();
            }
        }
    }
}

// The softmax of softmax.h with another base: probabilities are at most 448.
struct Softmax : RowState {
    // Moves row_base to the largest score so far; the sums follow it. Every row sees a key of every
    // block, so the base is finite, or NaN if a score is; with a shifted mask it starts finite.
    __device__ __forceinline__ void update_base(const float (&scores)[kKeys / 2], float factor) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float largest = largest_of_row(scores, half);

            const float old_base = row_base[half];
            row_base[half] = fmaxf(old_base, fmaf(largest, factor, -kLog2Largest));
            rescale[half] = ptx::ex2(old_base - row_base[half]);
            row_sum[half] *= rescale[half];
        }
    }

    // scores -> probabilities relative to row_base.
    __device__ __forceinline__ void exponentiate(float (&scores)[kKeys / 2], float factor) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int e = 2 * half;
#pragma unroll
            for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
                for (int i = 4 * n + e; i < 4 * n + e + 2; ++i) {
                    scores[i] = ptx::ex2(fmaf(scores[i], factor, -row_base[half]));
                    row_sum[half] += scores[i];
                }
            }
        }
    }
};

// 64 rows of a tile, spread over the lanes as in wgmma.h: a lane has two rows ("halves"), lane / 4 and
// the one 8 below.
template <typename Tile>
struct Consumer {
    static constexpr int kWidth = Tile::kWidth;

    float scores[kKeys / 2];
    uint32_t probabilities[kKeys / 8];
    float partial[kWidth / 2];  // P V of one block, without the scale of V
    float out[kWidth / 2];
    Softmax softmax;

    __device__ __forceinline__ void reset() {
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i) {
            out[i] = 0.0f;
        }
        softmax.reset(true);
        if constexpr (Tile::kShifted) {
            softmax.row_base[0] = softmax.row_base[1] = -FLT_MAX;
        }
    }

    // Starts scores = Q K^T. `query` is where this warpgroup's rows are.
    __device__ __forceinline__ void issue_scores(uint32_t query, uint32_t key) {
        const SharedOperand<kWidth, 16> a(query);
        const SharedOperand<kWidth, 16> b(key);
#pragma unroll
        for (int dim = 0; dim < kWidth; dim += 32) {
            WgmmaE4m3<kKeys>::ss(scores, a.at(dim), b.at(dim), dim > 0);
        }
        ptx::wgmma_commit_group();
    }

    // Starts partial = P V.
    __device__ __forceinline__ void issue_output(uint32_t value) {
        const SharedOperand<kKeys, 16> b(value);
#pragma unroll
        for (int key = 0; key < kKeys; key += 32) {
            WgmmaE4m3<kWidth>::rs(partial, probabilities + key / 8, b.at(key), key > 0);
        }
        ptx::wgmma_commit_group();
    }

    // Hides the keys from `key_count` on and, if causal, those after each row's own position.
    __device__ __forceinline__ void mask(int first_position, int first_key, int key_count,
                                         bool causal) {
        softmax.mask(
            scores, [first_position](int row) { return first_position + row; }, first_key,
            key_count, causal);
    }

    // The accumulators of 32 keys are the operand of the next product, for V's order of keys.
    __device__ __forceinline__ void pack_probabilities() {
#pragma unroll
        for (int i = 0; i < kKeys / 8; ++i) {
            const int e = i / 2 * 8 + i % 2 * 2;
            probabilities[i] =
                ptx::cvt_e4m3x4(scores[e], scores[e + 1], scores[e + 4], scores[e + 5]);
        }
    }

    __device__ __forceinline__ void add_partial(float value_scale) {
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i) {
            out[i] = fmaf(partial[i], value_scale, out[i]);
        }
    }

    // Divides by the sums and stores. Not epilogue.h's store_group_rows: V's order of dims gives each
    // lane 8 neighbours of each 32, so lanes exchange nothing; the result's dtype is chosen at run time,
    // its rows are dense, and a row that sees no key is zero.
    __device__ __forceinline__ void store(const AttentionE4m3& problem, const Work& work,
                                          int first_row) {
        const int head_dim = static_cast<int>(problem.head_dim);
        const int64_t first_out_row = work.head * problem.q_len;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float weight = 1.0f / quad_sum(softmax.row_sum[half]);
            const int row = first_row + softmax.row_in_group(half);
            if (row >= problem.q_len) {
                continue;
            }
            const bool sees = !Tile::kShifted || row + Tile::causal_offset(problem) >= 0;
            auto* target = static_cast<unsigned char*>(problem.out) +
                           (first_out_row + row) * head_dim * kElementBytes;
#pragma unroll
            for (int i = 2 * half; i < kWidth / 2; i += 16) {
                const int column = i / 16 * 32 + softmax.lane % 4 * kChunkElements;
                if (column >= head_dim) {
                    continue;
                }
                Pair pairs[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const float low = sees ? out[i + 4 * j] * weight : 0.0f;
                    const float high = sees ? out[i + 4 * j + 1] * weight : 0.0f;
                    pairs[j] = problem.out_dtype == Dtype::fp16
                                   ? Element<__half>::pack(low, high)
                                   : Element<__nv_bfloat16>::pack(low, high);
                }
                *reinterpret_cast<uint4*>(target + column * kElementBytes) =
                    make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
            }
        }
    }
};

template <typename Tile>
__device__ __forceinline__ void consume(const Launch& launch, const Shared<Tile>& shared,
                                        int consumer) {
    constexpr int kTurnThreads = 2 * kWarpgroup;
    const AttentionE4m3& problem = launch.problem;
    const int k_len = static_cast<int>(problem.k_len);
    const int all_blocks = (k_len + kKeys - 1) / kKeys;
    const int my_turn = kTurnBarrier + consumer;
    const int next_turn = kTurnBarrier + (consumer + 1) % kConsumers;
    const uint32_t query = shared.query() + consumer * kGroupRows * Tile::kWidth;

    Consumer<Tile> part;
    part.softmax.warp = threadIdx.x / kWarpSize % 4;
    part.softmax.lane = threadIdx.x % kWarpSize;
    const auto release = [&part](uint32_t barrier) {
        if (part.softmax.lane == 0) {
            ptx::mbarrier_arrive(barrier);
        }
    };
    if (consumer == kConsumers - 1) {
        ptx::bar_arrive(next_turn, kTurnThreads);
    }

    TileScheduler<Tile> scheduler{launch};
    Ring<Tile::kStages> key;
    Ring<Tile::kStages> value;
    int query_parity = 0;
    for (Work work; scheduler.next(work);) {
        const int first_row = work.first_row + consumer * kGroupRows;
        const int first_position = first_row + Tile::causal_offset(problem);
        const int first_scale = work.kv_head * all_blocks;
        const float factor =
            launch.scale_log2 * problem.q_scale[work.head * launch.tiles + work.first_row / kRows];
        const auto mask_block = [&](int block) {
            const int end = (block + 1) * kKeys;
            if (end > k_len || (Tile::causal(problem) && end - 1 > first_position)) {
                part.mask(first_position, block * kKeys, k_len, Tile::causal(problem));
            }
        };

        int block = work.blocks - 1;
        float key_scale = problem.k_scale[first_scale + block];
        ptx::mbarrier_wait(shared.query_full(), query_parity);
        query_parity ^= 1;
        ptx::mbarrier_wait(shared.key_full(key.stage), key.parity);
        ptx::wgmma_fence();
        part.issue_scores(query, shared.key(key.stage));
        part.reset();
        ptx::wgmma_wait_group<0>();
        pin(part.scores);
        release(shared.key_empty(key.stage));
        key.advance();
        mask_block(block);
        part.softmax.update_base(part.scores, factor * key_scale);
        part.softmax.exponentiate(part.scores, factor * key_scale);
        part.pack_probabilities();

#pragma unroll 1
        for (; block > 0; --block) {
            key_scale = problem.k_scale[first_scale + block - 1];
            const float value_scale = problem.v_scale[first_scale + block];
            ptx::mbarrier_wait(shared.key_full(key.stage), key.parity);
            ptx::bar_sync(my_turn, kTurnThreads);
            ptx::wgmma_fence();
            part.issue_scores(query, shared.key(key.stage));
            ptx::mbarrier_wait(shared.value_full(value.stage), value.parity);
            ptx::wgmma_fence();
            part.issue_output(shared.value(value.stage));
            ptx::bar_arrive(next_turn, kTurnThreads);
            ptx::wgmma_wait_group<1>();
            pin(part.scores);
            release(shared.key_empty(key.stage));
            key.advance();
            mask_block(block - 1);
            part.softmax.update_base(part.scores, factor * key_scale);
            part.softmax.exponentiate(part.scores, factor * key_scale);
            // Never true, but ptxas does not know: otherwise it would put the softmax after the wait.
            if (part.softmax.row_sum[0] + part.softmax.row_sum[1] < 0.0f) {
                ptx::mbarrier_arrive(shared.key_empty(key.stage));
            }
            ptx::wgmma_wait_group<0>();
            pin(part.partial);
            release(shared.value_empty(value.stage));
            value.advance();
            part.add_partial(value_scale);
            part.softmax.rescale_output(part.out);
            part.pack_probabilities();
        }

        release(shared.query_empty());
        const float value_scale = problem.v_scale[first_scale];
        ptx::mbarrier_wait(shared.value_full(value.stage), value.parity);
        ptx::wgmma_fence();
        part.issue_output(shared.value(value.stage));
        ptx::wgmma_wait_group<0>();
        pin(part.partial);
        release(shared.value_empty(value.stage));
        value.advance();
        part.add_partial(value_scale);
        part.store(problem, work, first_row);
    }
}

template <typename Tile>
__global__ void __launch_bounds__(kThreads, 1)
    forward_e4m3(const __grid_constant__ Launch launch) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const Shared<Tile> shared{static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory))};
    if (threadIdx.x == 0) {
        shared.init_barriers();
    }
    __syncthreads();
    // The same in all lanes: the shuffle makes it provably warp-uniform.
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / kWarpgroup, 0);
    if (warpgroup == 0) {
        ptx::setmaxnreg_dec<kProducerRegisters>();
        if (threadIdx.x < kWarpSize) {
            produce<Tile>(launch, shared);
        }
    } else {
        ptx::setmaxnreg_inc<kConsumerRegisters>();
        consume<Tile>(launch, shared, warpgroup - 1);
    }
}

}  // namespace flashbench::cuda::sm90::fp8
