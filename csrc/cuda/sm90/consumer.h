// A consumer warpgroup: 64 rows of the tile, everything that is computed.
//
// Scores, probabilities and output stay in registers. The products of one step, Q K^T of the next
// block and P V of this one, are issued together; while P V still runs the softmax of the next
// block is computed. wgmma runs in the background: registers it reads or writes are left alone
// between issue and wait.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "../constants.h"
#include "../rows.h"
#include "../sm80/ptx.h"
#include "../types.h"
#include "producer.h"
#include "ptx.h"
#include "schedule.h"
#include "tile.h"
#include "wgmma.h"

namespace flashbench::cuda::sm90 {

// The base of a row follows its largest score only once that is 2^8 times as likely: the output
// then seldom has to be rescaled, and probabilities up to 256 cost no accuracy (as FlashAttention-4
// does).
constexpr float kBaseSlack = 8.0f;

// What is computed of `registers` stays above or below this point.
template <int count>
__device__ __forceinline__ void pin(float (&registers)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        asm volatile("" : "+f"(registers[i])::"memory");
    }
}

// Pair i of lane j becomes pair j of lane i, in each four neighbouring lanes.
__device__ __forceinline__ void transpose_4x4(Pair (&pairs)[4], int quad_lane) {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
        const bool upper = (quad_lane & distance) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if ((i & distance) == 0) {
                const Pair sent = upper ? pairs[i] : pairs[i + distance];
                const Pair received = __shfl_xor_sync(0xffffffffu, sent, distance);
                pairs[i] = upper ? received : pairs[i];
                pairs[i + distance] = upper ? pairs[i + distance] : received;
            }
        }
    }
}

// Spread over the lanes as wgmma.h says: a lane has two rows ("halves"), lane / 4 and 8 below.
template <typename Tile>
struct Consumer {
    using T = typename Tile::Type;
    static constexpr int kKeys = Tile::kKeys;
    static constexpr int kHeadDim = Tile::kHeadDim;

    float scores[kKeys / 2];
    Pair probabilities[kKeys / 4];
    float out[kHeadDim / 2];
    // What the probabilities are relative to: the largest score so far * scale_log2, or up to
    // kBaseSlack less.
    float row_base[2];
    float row_sum[2];  // this lane's part
    float rescale[2];

    int warp;  // in the warpgroup
    int lane;

    __device__ __forceinline__ void reset_output() {
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) {
            out[i] = 0.0f;
        }
    }

    // What the next scores belong to begins here, if `fresh`.
    __device__ __forceinline__ void reset_rows(bool fresh) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            row_base[half] = fresh ? -INFINITY : row_base[half];
            row_sum[half] = fresh ? 0.0f : row_sum[half];
        }
    }

    __device__ __forceinline__ int row_in_group(int half) const {
        return warp * 16 + half * 8 + lane / 4;
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

    // Hides the keys from `key_count` on and, if causal, those after each row's own position.
    __device__ __forceinline__ void mask(int first_row, int first_key, int key_count,
                                         bool causal) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row + row_in_group(half);
            const int end = causal ? min(key_count, row + 1) : key_count;
            const int left = end - first_key - 2 * (lane % 4);
#pragma unroll
            for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (n * 8 + i >= left) {
                        scores[4 * n + 2 * half + i] = -INFINITY;
                    }
                }
            }
        }
    }

    // Lets row_base follow the largest score; `rescale` is what the sums and the output have to
    // follow by.
    __device__ __forceinline__ void update_base(float scale_log2) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int e = 2 * half;
            float largest = fmaxf(scores[e], scores[e + 1]);
            float other = fmaxf(scores[4 + e], scores[4 + e + 1]);
#pragma unroll
            for (int n = 2; n < kKeys / 8; n += 2) {
                largest = fmaxf(largest, fmaxf(scores[4 * n + e], scores[4 * n + e + 1]));
                other = fmaxf(other, fmaxf(scores[4 * n + 4 + e], scores[4 * n + 4 + e + 1]));
            }
            largest = fmaxf(largest, other);
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));

            const float old_base = row_base[half];
            const float new_max = largest * scale_log2;
            row_base[half] = new_max > old_base + kBaseSlack ? new_max : old_base;
            rescale[half] = sm80::ptx::ex2(old_base - finite_base(half));
            row_sum[half] *= rescale[half];
        }
    }

    // Any finite base does while all scores are -inf; -inf - (-inf) would be NaN.
    __device__ __forceinline__ float finite_base(int half) const {
        return row_base[half] == -INFINITY ? 0.0f : row_base[half];
    }

    // scores -> probabilities relative to row_base, as the operand of the next product: the
    // accumulators of 16 keys are it.
    __device__ __forceinline__ void exponentiate(float scale_log2) {
        const float base[2] = {finite_base(0), finite_base(1)};
#pragma unroll
        for (int i = 0; i < kKeys / 2; i += 8) {
#pragma unroll
            for (int j = i; j < i + 8; ++j) {
                scores[j] = sm80::ptx::ex2(fmaf(scores[j], scale_log2, -base[j / 2 % 2]));
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float* pair = scores + i + 2 * half;
                if (Tile::kRoomy) {
                    // Fewer of the additions wait for the exponential unit.
                    row_sum[half] += (pair[0] + pair[1]) + (pair[4] + pair[5]);
                } else {
                    row_sum[half] = row_sum[half] + pair[0] + pair[1] + pair[4] + pair[5];
                }
            }
#pragma unroll
            for (int j = i; j < i + 8; j += 2) {
                probabilities[j / 2] = Element<T>::pack(scores[j], scores[j + 1]);
            }
        }
    }

    __device__ __forceinline__ void rescale_output() {
        if (__all_sync(0xffffffffu, rescale[0] == 1.0f && rescale[1] == 1.0f)) {
            return;
        }
#pragma unroll
        for (int i = 0; i < kHeadDim / 2; ++i) {
            out[i] *= rescale[i / 2 % 2];
        }
    }

    // Adds the NaN and infinite values of the keys from `first_key` on, which the scanner took out,
    // to the rows that see them. The weight is taken as 1: any positive one gives the same.
    __device__ __forceinline__ void add_nonfinite_values(const Rows<const T>& values, int first_row,
                                                         int first_key, int end_key) {
#pragma unroll 1
        for (int key = first_key; key < end_key; ++key) {
#pragma unroll
            for (int i = 0; i < kHeadDim / 2; i += 4) {
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const int dim = i * 2 + 2 * (lane % 4) + j;
                    if (dim >= values.head_dim) {
                        continue;
                    }
                    const float value = static_cast<float>(
                        values.first[key * values.seq_stride + dim * values.dim_stride]);
                    if (isfinite(value)) {
                        continue;
                    }
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        if (key <= first_row + row_in_group(half)) {
                            out[i + 2 * half + j] += value;
                        }
                    }
                }
            }
        }
    }

    // Divides by the sums (each lane has its part of `sums`) and stores.
    __device__ __forceinline__ void store(const Rows<T>& rows, int first_row,
                                          const float (&sums)[2]) {
        const int quad_lane = lane % 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = sums[half];
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            const float weight = 1.0f / sum;
            const int row = first_row + row_in_group(half);
            T* target = rows.first + row * rows.seq_stride;
            // Of 32 columns the four lanes of a row have two in each chunk of eight: they exchange
            // so that each has a chunk.
#pragma unroll
            for (int i = 2 * half; i < kHeadDim / 2; i += 16) {
                Pair pairs[4];
#pragma unroll
                for (int chunk = 0; chunk < 4; ++chunk) {
                    pairs[chunk] = Element<T>::pack(out[i + 4 * chunk] * weight,
                                                    out[i + 4 * chunk + 1] * weight);
                }
                transpose_4x4(pairs, quad_lane);
                const int column = i / 16 * 32 + quad_lane * kChunkElements;
                if (row >= rows.count || column >= rows.head_dim) {
                    continue;
                }
                const uint4 chunk = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
                if (rows.vectors) {
                    *reinterpret_cast<uint4*>(target + column) = chunk;
                } else {
                    scatter_chunk(target + column * rows.dim_stride, rows.dim_stride, chunk);
                }
            }
        }
    }
};

template <typename Tile>
__device__ __forceinline__ void consume(const Launch& launch, const Shared<Tile>& shared,
                                        int consumer) {
    using T = typename Tile::Type;
    constexpr int kKeys = Tile::kKeys;
    constexpr int kTurnThreads = 2 * kWarpgroup;
    const Attention& problem = launch.problem;
    const int q_len = static_cast<int>(problem.q_len);
    const int k_len = static_cast<int>(problem.k_len);
    const bool causal = problem.causal;
    const float scale_log2 = launch.scale_log2;
    const int my_turn = kTurnBarrier + consumer;
    const int next_turn = kTurnBarrier + (consumer + 1) % Tile::kConsumers;

    Consumer<Tile> part;
    part.warp = threadIdx.x / kWarpSize % 4;
    part.lane = threadIdx.x % kWarpSize;
    Ring<Tile::kQueryStages> query;
    Ring<Tile::kStages> key;
    Ring<Tile::kStages> value;
    int nonfinite = 0;

    const auto release = [&part](uint32_t barrier) {
        if (part.lane == 0) {
            ptx::mbarrier_arrive(barrier);
        }
    };
    const auto release_query = [&] {
        release(shared.query_empty(query.stage));
        query.advance();
    };
    const auto release_key = [&] {
        release(shared.key_empty(key.stage));
        key.advance();
    };
    const auto release_value = [&] {
        release(shared.value_empty(value.stage));
        value.advance();
    };
    // Waits for the next tile. False after the last one.
    const auto receive = [&](Work& work) {
        ptx::mbarrier_wait(shared.query_full(query.stage), query.parity);
        work = get_work(shared.work(query.stage));
        return work.blocks > 0;
    };
    const auto wait_for_key = [&] {
        ptx::mbarrier_wait(shared.key_full(key.stage), key.parity);
    };
    const auto wait_for_values = [&](const Work& work, int block) {
        ptx::mbarrier_wait(
            causal ? shared.value_clean(value.stage) : shared.value_full(value.stage),
            value.parity);
        if (block >= work.first_diagonal) {
            nonfinite |= sm80::ptx::ld_shared_32(shared.nonfinite_flag(value.stage));
        }
    };
    const auto issue_scores = [&] {
        ptx::wgmma_fence();
        part.issue_scores(
            shared.query(query.stage) + consumer * kGroupRows * Tile::kSwizzleBytes,
            shared.key(key.stage));
    };
    const auto issue_output = [&] {
        ptx::wgmma_fence();
        part.issue_output(shared.value(value.stage));
    };
    const auto first_row_of = [&](const Work& work) {
        return work.first_row + consumer * kGroupRows;
    };
    // Blocks that some row of this warpgroup sees; the others are passed on.
    const auto visible_blocks = [&](const Work& work) {
        const int first_row = first_row_of(work);
        const int end_key = first_row >= q_len ? 1 : causal ? first_row + kGroupRows : k_len;
        return min(work.blocks, (end_key + kKeys - 1) / kKeys);
    };
    const auto pass_key = [&] {
        wait_for_key();
        release_key();
        ptx::bar_sync(my_turn, kTurnThreads);
        ptx::bar_arrive(next_turn, kTurnThreads);
    };
    const auto pass_value = [&](const Work& work, int block) {
        wait_for_values(work, block);
        release_value();
    };
    const auto take_scores = [&](int first_row, int block) {
        const int end = (block + 1) * kKeys;
        if (end > k_len || (causal && end - 1 > first_row)) {
            part.mask(first_row, block * kKeys, k_len, causal);
        }
        part.update_base(scale_log2);
    };
    const auto finish = [&](const Work& work, const float(&sums)[2]) {
        const int first_row = first_row_of(work);
        if (nonfinite != 0) {
            part.add_nonfinite_values(
                rows_of<const T>(problem.v, problem.v_strides, work.batch, work.kv_head,
                                 problem.k_len, problem.head_dim, false),
                first_row, work.first_diagonal * kKeys, min(k_len, work.blocks * kKeys));
            nonfinite = 0;
        }
        part.store(rows_of<T>(problem.out, problem.out_strides, work.batch, work.head,
                              problem.q_len, problem.head_dim, launch.out_vectors),
                   first_row, sums);
        part.reset_output();
    };

    if (consumer == Tile::kConsumers - 1) {
        ptx::bar_arrive(next_turn, kTurnThreads);
    }
    part.reset_output();
    Work work;
    bool more = receive(work);
#pragma unroll 1
    while (more) {
        // Nothing is in flight: the first softmax, alone.
        int block = work.blocks - 1;
        const int visible = visible_blocks(work);
#pragma unroll 1
        for (; block >= visible; --block) {
            pass_key();
            pass_value(work, block);
        }
        wait_for_key();
        ptx::bar_sync(my_turn, kTurnThreads);
        issue_scores();
        ptx::bar_arrive(next_turn, kTurnThreads);
        part.reset_rows(true);
        ptx::wgmma_wait_group<0>();
        pin(part.scores);
        release_key();
        if (block == 0) {
            release_query();
        }
        take_scores(first_row_of(work), block);
        part.exponentiate(scale_log2);

        // P V of `block`, whose probabilities are there, and Q K^T of the next one: of this tile or
        // of the next tile.
        Work next;
#pragma unroll 1
        for (;;) {
            const bool ends = block == 0;
            int scored = block - 1;
            int scored_row = first_row_of(work);
            int passed = 0;
            if (ends) {
                if constexpr (!Tile::kStream) {
                    break;
                }
                more = receive(next);
                if (!more) {
                    break;
                }
                // While V of this block is held, the producer gets one block further, not two.
                passed = next.blocks - visible_blocks(next);
                if (passed > 1) {
                    break;
                }
                if (passed == 1) {
                    pass_key();
                }
                scored = next.blocks - 1 - passed;
                scored_row = first_row_of(next);
            }
            wait_for_key();
            ptx::bar_sync(my_turn, kTurnThreads);
            issue_scores();
            wait_for_values(work, block);
            issue_output();
            ptx::bar_arrive(next_turn, kTurnThreads);
            ptx::wgmma_wait_group<1>();
            pin(part.scores);
            release_key();
            if (scored == 0) {
                release_query();
            }
            const float sums[2] = {part.row_sum[0], part.row_sum[1]};
            part.reset_rows(ends);
            take_scores(scored_row, scored);
            // Never so, which ptxas does not know: left alone it waits before it looks for the largest
            // scores.
            if (Tile::kRoomy && part.rescale[0] + part.rescale[1] < 0.0f) {
                ptx::mbarrier_arrive(shared.key_empty(key.stage));
            }
            ptx::wgmma_wait_group<0>();
            pin(part.out);
            release_value();
            part.exponentiate(scale_log2);
            if (ends) {
                finish(work, sums);
                if (passed == 1) {
                    pass_value(next, scored + 1);
                }
                work = next;
            } else {
                part.rescale_output();
            }
            block = scored;
        }

        // The last P V, alone.
        wait_for_values(work, block);
        issue_output();
        ptx::wgmma_wait_group<0>();
        pin(part.out);
        release_value();
        finish(work, part.row_sum);
        if constexpr (Tile::kStream) {
            work = next;
        } else {
            more = receive(work);
        }
    }
}

}  // namespace flashbench::cuda::sm90
