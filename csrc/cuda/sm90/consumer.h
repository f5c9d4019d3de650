// A consumer warpgroup: takes the blocks of keys of all its tiles as one stream.
//
// A step issues two products together, Q K^T of the next block and P V of this one; at the end of a
// tile, the next block is the first one of the next tile. Then follow, in the shadow of the other
// warpgroups' products: mask, largest scores, wait for P V, exponentials. wgmma is asynchronous:
// registers that it reads or writes are not touched between issue and wait.
//
// Issuing blocks a warp until the tensor cores accept the product, so P V is nearly done once the last
// one is issued, and waiting for it before the exponentials is free. The probabilities' registers are
// then available, and packing runs beside the exponential unit.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../constants.h"
#include "../rows.h"
#include "group_rows.h"
#include "out_boxes.h"
#include "ptx.h"
#include "tail_kernel.h"
#include "tile.h"
#include "tile_scheduler.h"

namespace flashbench::cuda::sm90 {

template <typename Tile>
__device__ __forceinline__ void consume(const Launch& launch, const Shared<Tile>& shared,
                                        int consumer) {
    using T = typename Tile::Type;
    constexpr int kKeys = Tile::kKeys;
    constexpr int kTurnThreads = 2 * kWarpgroup;
    const Attention& problem = launch.problem;
    const int rows = rows_of_head<Tile>(launch);
    const int k_len = static_cast<int>(problem.k_len);
    const bool causal = Tile::kTakesCausal && problem.causal;
    const float scale_log2 = launch.scale_log2;
    const int my_turn = kTurnBarrier + consumer;
    const int next_turn = kTurnBarrier + (consumer + 1) % Tile::kConsumers;

    GroupRows<Tile> part;
    part.softmax.warp = threadIdx.x / kWarpSize % 4;
    part.softmax.lane = threadIdx.x % kWarpSize;
    Ring<Tile::kQueryStages> query;
    Ring<Tile::kStages> key;
    Ring<Tile::kStages> value;
    int nonfinite = 0;

    const auto release = [&part](uint32_t barrier) {
        if (part.softmax.lane == 0) {
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
        work = get_work<Tile::kDivided>(shared.work(query.stage));
        return work.blocks > 0;
    };
    const auto wait_for_key = [&] {
        ptx::mbarrier_wait(shared.key_full(key.stage), key.parity);
    };
    const auto wait_for_values = [&](const Work& work, int block) {
        ptx::mbarrier_wait(
            causal ? shared.value_clean(value.stage) : shared.value_full(value.stage),
            value.parity);
        // Lane 0 reads, because it also releases the buffer.
        if (Tile::kTakesCausal && block >= work.first_diagonal && part.softmax.lane == 0) {
            nonfinite |= ptx::ld_shared_32(shared.nonfinite_flag(value.stage));
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
    // The number of blocks that some row of this warpgroup sees; the others are released unread. At least
    // one: a part without keys starts its rows as any other.
    const auto visible_blocks = [&](const Work& work) {
        const int first_row = first_row_of(work);
        const int end_key = first_row >= rows ? 1
                            : causal ? position_of<Tile>(launch, first_row + kGroupRows - 1) + 1
                                     : k_len;
        const int end_block = (end_key + kKeys - 1) / kKeys;
        return Tile::kPacked ? max(1, min(work.blocks, end_block - work.first_block))
                             : min(work.blocks, end_block);
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
    const auto mask = [&](int first_row, int key) {
        part.mask([&](int row) { return position_of<Tile>(launch, first_row + row); }, key, k_len,
                  causal);
    };
    const auto take_scores = [&](int first_row, int key, bool first) {
        const int end = key + kKeys;
        if constexpr (Tile::kTakesCausal) {
            if (end > k_len || (causal && end - 1 > position_of<Tile>(launch, first_row))) {
                mask(first_row, key);
            }
        } else {
            // Only the block of a tile, or of a part, that is visited first may end past the last key; opaque() keeps
            // the question out of the others.
            bool cut = false;
            if (first) {
                cut = ptx::opaque(end) > k_len;
            }
            if (cut) {
                mask(first_row, key);
            }
        }
        part.update_base(scale_log2);
    };
    const auto is_part = [](const Work& work) {
        return Tile::kPacked || (Tile::kDivided && work.part != kWhole);
    };
    const auto finish_softmax = [&](const Work& work) {
        if (is_part(work)) {
            store_part_statistics<Tile>(launch.tail, work.part, consumer, part.softmax);
        }
        if constexpr (Tile::kWithLse) {
            store_group_lse(problem, work.batch, work.head, first_row_of(work), part.softmax);
        }
    };
    const auto finish = [&](const Work& work, const float(&sums)[2]) {
        if (__any_sync(0xffffffffu, nonfinite != 0)) {
            part.add_nonfinite_values(
                value_rows<T>(problem, work.batch, work.kv_head, false),
                [&](int row) { return position_of<Tile>(launch, first_row_of(work) + row); },
                first_key<Tile>(work, work.first_diagonal),
                min(k_len, first_key<Tile>(work, work.blocks)));
            nonfinite = 0;
        }
        if (is_part(work)) {
            if (!Tile::kPacked || first_row_of(work) < rows) {
                store_part_values<Tile>(launch.tail, work.part, consumer, part.out);
            }
        } else if constexpr (!Tile::kPacked) {
            part.store(sums, shared, launch, first_row_of(work), work);
        }
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
        part.softmax.reset(true);
        ptx::wgmma_wait_group<0>();
        pin(part.scores);
        release_key();
        if (block == 0) {
            release_query();
        }
        take_scores(first_row_of(work), first_key<Tile>(work, block), true);
        part.exponentiate(scale_log2);

        // P V of `block`, whose probabilities are ready, and Q K^T of the next one, of this tile or of
        // the next.
        Work next;
#pragma unroll 1
        for (;;) {
            const bool ends = block == 0;
            int scored = block - 1;
            int scored_row = first_row_of(work);
            int scored_key = first_key<Tile>(work, scored);
            int passed = 0;
            if (ends) {
                if constexpr (!Tile::kStream) {
                    break;
                }
                more = receive(next);
                if (!more) {
                    break;
                }
                // While V of this block is in use, the producer can prefetch only one block, not two.
                passed = next.blocks - visible_blocks(next);
                if (passed > 1) {
                    break;
                }
                if (passed == 1) {
                    pass_key();
                }
                scored = next.blocks - 1 - passed;
                scored_row = first_row_of(next);
                scored_key = first_key<Tile>(next, scored);
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
            if (ends) {
                finish_softmax(work);
            }
            const float sums[2] = {part.softmax.row_sum[0], part.softmax.row_sum[1]};
            part.softmax.reset(ends);
            take_scores(scored_row, scored_key, ends);
            // Never true, but ptxas does not know: otherwise it would wait before computing the
            // largest scores.
            if (Tile::kRoomy && part.softmax.rescale[0] + part.softmax.rescale[1] < 0.0f) {
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
        finish_softmax(work);
        wait_for_values(work, block);
        issue_output();
        ptx::wgmma_wait_group<0>();
        pin(part.out);
        release_value();
        finish(work, part.softmax.row_sum);
        if constexpr (Tile::kStream) {
            work = next;
        } else {
            more = receive(work);
        }
    }
    wait_for_boxes<0>();  // before shared memory is given away
}

}  // namespace flashbench::cuda::sm90
