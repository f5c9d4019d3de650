// Backward attention with Hopper's own instructions (sm_90a): dq, dk and dv.
//
// Method: FlashAttention-2 and -3 (Dao 2023; Shah et al. 2024). With S = scale Q K^T, P = exp(S - lse),
// dP = dO V^T and delta = rowsum(dO * O),
//
//   dS = P * (dP - delta),  dV = P^T dO,  dK = scale dS^T Q,  dQ = scale dS K
//
// A block of threads keeps some keys and walks over the queries that see them, of all query heads of its
// key head, so that dk and dv stay in registers. S and dP are computed transposed, keys by queries: P^T and
// dS^T are then in the registers that the products dV and dK read. For dQ, which sums over keys, dS passes
// through shared memory, and each block of keys adds its part to a tensor of fp32; the order of these
// additions, and so the last bits of dq, differ from call to call unless blocks take turns.
// ../backward_prepare.h has the kernel before this one, backward_store.h the one after it.
//
// Tensor cores read operands from shared memory nearly as fast as it can be read, so what else passes
// through it costs time: adding dq from registers is faster than by TMA through shared memory (1.18x at
// 1,16,4096,128).
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "../backward_walk.h"
#include "backward_consumer.h"
#include "backward_tile.h"
#include "ptx.h"
#include "tma.h"

namespace flashbench::cuda::sm90 {

struct BackwardLaunch {
    CUtensorMap query;
    CUtensorMap key;
    CUtensorMap value;
    CUtensorMap dout;
    BackwardPlan plan;
};

// The producer: one thread copies K and V, then a tile of Q, lse, dO and delta after the other.
template <typename Tile>
__device__ __forceinline__ void produce_backward(const BackwardLaunch& launch,
                                                 const BackwardShared<Tile>& shared,
                                                 const KeyBlock& keys) {
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
    const auto load_queries = [&](const CUtensorMap& map, uint32_t target, const float* rows,
                                  uint32_t rows_target, uint32_t barrier) {
        ptx::mbarrier_arrive_expect_tx(barrier, Tile::kQueryBytes + Tile::kRowBytes);
        for (int box = 0; box < Tile::kBoxes; ++box) {
            ptx::cp_async_bulk_tensor_4d(target + box * Tile::kQueryBoxBytes, &map, barrier,
                                         box * Tile::kBoxDims, walk.tile * Tile::kQueries,
                                         walk.head, keys.batch);
        }
        const int64_t tile = walk.place(plan, keys.batch).in_all;
        ptx::cp_async_bulk(rows_target, rows + tile * Tile::kQueries, Tile::kRowBytes, barrier);
    };
    load_keys(launch.key, shared.key(), shared.key_full());
    load_keys(launch.value, shared.value(), shared.value_full());
    // lse, delta and the zeros in dq are written by the kernel before this one.
    ptx::griddepcontrol_wait();

    Ring<Tile::kQueryStages> query;
    Ring<Tile::kStages> dout;
    for (; walk.left > 0; walk.advance()) {
        ptx::mbarrier_wait(shared.query_empty(query.stage), query.parity ^ 1);
        const QueryTile place = walk.place(plan, keys.batch);
        ptx::st_shared_32(shared.query_tile(query.stage), place.in_head);
        ptx::st_shared_32(shared.query_tile(query.stage) + 4, place.in_all);
        load_queries(launch.query, shared.query(query.stage), plan.lse, shared.lse(query.stage),
                     shared.query_full(query.stage));
        ptx::mbarrier_wait(shared.dout_empty(dout.stage), dout.parity ^ 1);
        load_queries(launch.dout, shared.dout(dout.stage), plan.delta, shared.delta(dout.stage),
                     shared.dout_full(dout.stage));
        query.advance();
        dout.advance();
    }
}

// `divided`: groups have several parts. A kernel of its own, because the other would have spilled registers.
template <typename Tile, bool divided>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    backward(const __grid_constant__ BackwardLaunch launch) {
    extern __shared__ __align__(1024) unsigned char shared_memory[];
    const BackwardShared<Tile> shared{
        static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory))};
    const auto key_block = [&launch] {
        return KeyBlock(launch.plan, 1, divided ? launch.plan.parts : 1);
    };
    if (threadIdx.x == 0) {
        shared.init_barriers();
    }
    ptx::griddepcontrol_launch_dependents();
    __syncthreads();
    // The same in all lanes: the shuffle makes it provably warp-uniform.
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / kWarpgroup, 0);
    if (warpgroup == 0) {
        ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
        if (threadIdx.x == 0) {
            produce_backward<Tile>(launch, shared, key_block());
        }
    } else {
        ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
        BackwardConsumer<Tile> consumer(launch.plan, shared, key_block(), warpgroup - 1);
        consumer.take_all();
        consumer.store(key_block());
    }
}

}  // namespace flashbench::cuda::sm90
