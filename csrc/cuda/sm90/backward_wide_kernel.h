// The backward kernel above head dim 128. The method is that of backward_kernel.h.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "../backward_walk.h"
#include "backward_kernel.h"
#include "backward_wide_keys.h"
#include "backward_wide_tile.h"
#include "backward_wide_values.h"
#include "ptx.h"
#include "tma.h"

namespace flashbench::cuda::sm90 {

// The producer: one thread copies K, V if dk is wanted, then a tile of Q, lse, dO and delta after the
// other.
template <typename Tile, Sums sums>
__device__ __forceinline__ void produce_wide(const BackwardLaunch& launch,
                                             const BackwardWideShared<Tile, sums>& shared,
                                             const KeyBlock& keys) {
    using Shared = BackwardWideShared<Tile, sums>;
    const BackwardPlan& plan = launch.plan;
    QueryWalk<Tile> walk(plan, keys);
    if (walk.left == 0) {
        return;
    }
    const auto load_keys = [&](const CUtensorMap& map, uint32_t target, uint32_t barrier) {
        ptx::mbarrier_arrive_expect_tx(barrier, Tile::kKeyBytes);
        for (int box = 0; box < Tile::kBoxes; ++box) {
            ptx::cp_async_bulk_tensor_4d(target + box * Tile::kKeyBoxBytes, &map, barrier,
                                         box * Tile::kBoxDims, keys.index * Tile::kKeys,
                                         keys.kv_head, keys.batch);
        }
    };
    const auto load_boxes = [&](const CUtensorMap& map, uint32_t target, uint32_t barrier,
                                int first_box, int boxes) {
        for (int box = 0; box < boxes; ++box) {
            ptx::cp_async_bulk_tensor_4d(target + box * Tile::kQueryBoxBytes, &map, barrier,
                                         (first_box + box) * Tile::kBoxDims,
                                         walk.tile * Tile::kQueries, walk.head, keys.batch);
        }
    };
    load_keys(launch.key, shared.key(), shared.key_full());
    if constexpr (sums == Sums::keys) {
        load_keys(launch.value, shared.value(), shared.value_full());
    }
    // lse, delta and the zeros in dq are written by the kernel before this one.
    ptx::griddepcontrol_wait();

    Ring<Shared::kHalves> query;
    Ring<Shared::kStages> dout;
    const auto load_half = [&](const QueryTile& place, int64_t first_row, int half) {
        ptx::mbarrier_wait(shared.query_empty(query.stage), query.parity ^ 1);
        const uint32_t full = shared.query_full(query.stage);
        if (half == 0) {
            ptx::st_shared_32(shared.query_tile(query.stage), place.in_head);
            ptx::st_shared_32(shared.query_tile(query.stage) + 4, place.in_all);
        }
        ptx::mbarrier_arrive_expect_tx(full, Tile::kHalfBytes + (half == 0 ? Tile::kRowBytes : 0));
        load_boxes(launch.query, shared.query(query.stage), full, half * Tile::kHalfBoxes,
                   Tile::kHalfBoxes);
        if (half == 0) {
            ptx::cp_async_bulk(shared.lse(query.stage), plan.lse + first_row, Tile::kRowBytes,
                               full);
        }
        query.advance();
    };
    for (; walk.left > 0; walk.advance()) {
        const QueryTile place = walk.place(plan, keys.batch);
        const int64_t first_row = static_cast<int64_t>(place.in_all) * Tile::kQueries;
        load_half(place, first_row, 0);
        if constexpr (!Shared::kLateHalf) {
            load_half(place, first_row, 1);
        }
        ptx::mbarrier_wait(shared.dout_empty(dout.stage), dout.parity ^ 1);
        const uint32_t full = shared.dout_full(dout.stage);
        ptx::mbarrier_arrive_expect_tx(full, Tile::kQueryBytes + Tile::kRowBytes);
        load_boxes(launch.dout, shared.dout(dout.stage), full, 0, Tile::kBoxes);
        ptx::cp_async_bulk(shared.delta(dout.stage), plan.delta + first_row, Tile::kRowBytes, full);
        dout.advance();
        if constexpr (Shared::kLateHalf) {
            load_half(place, first_row, 1);
        }
    }
}

template <typename Tile, Sums sums, typename Consumer>
__device__ __forceinline__ void take_wide(const BackwardLaunch& launch, uint32_t shared_base,
                                          const KeyBlock& keys, int warpgroup) {
    const BackwardWideShared<Tile, sums> shared{shared_base};
    if (threadIdx.x == 0) {
        shared.init_barriers();
    }
    ptx::griddepcontrol_launch_dependents();
    __syncthreads();
    if (warpgroup == 0) {
        ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
        if (threadIdx.x == 0) {
            produce_wide<Tile, sums>(launch, shared, keys);
        }
    } else {
        ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
        Consumer consumer(launch.plan, shared, keys, warpgroup - 1);
        consumer.take_all();
        consumer.store(keys);
    }
}

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    backward_wide(const __grid_constant__ BackwardLaunch launch) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
    // The same in all lanes: the shuffle makes it provably warp-uniform.
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / kWarpgroup, 0);
    const BackwardPlan& plan = launch.plan;
    const KeyBlock keys(plan, 2, plan.parts, Tile::kAlternatesCausal && plan.causal);
    if (keys.kind == 0) {
        take_wide<Tile, Sums::keys, KeyConsumer<Tile>>(launch, shared, keys, warpgroup);
    } else {
        take_wide<Tile, Sums::values, ValueConsumer<Tile>>(launch, shared, keys, warpgroup);
    }
}

}  // namespace flashbench::cuda::sm90
