// The producer warpgroup: brings Q, K and V into shared memory.
//
// Uses the copy engine (TMA) if the strides allow it: warp 0 issues, the other warps scan V where the
// causal mask cuts it. Otherwise all four warps use plain loads. Both leave the same bytes: swizzled
// boxes of kBoxDims elements per row, with zeros past the last row and dim (of packed rows: the last query).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../nonfinite.h"
#include "../rows.h"
#include "../types.h"
#include "ptx.h"
#include "tile.h"
#include "tile_scheduler.h"
#include "tma.h"
#include "value_scan.h"

namespace flashbench::cuda::sm90 {

// The offset of columns `column` and the next of `row` in a region of `rows` rows.
template <typename Tile>
__device__ __forceinline__ uint32_t pair_offset(int rows, int row, int column) {
    constexpr int kChunks = Tile::kBoxDims / kChunkElements;
    const int chunk = column / kChunkElements;
    return (chunk / kChunks * rows + row) * Tile::kSwizzleBytes +
           (chunk % kChunks ^ (row & 7)) * kChunkBytes + column % kChunkElements * kElementBytes;
}

// --- by the copy engine --------------------------------------------------------------------------

template <typename Tile, int rows>
__device__ __forceinline__ void issue_copy(uint32_t shared, const CUtensorMap* map,
                                           uint32_t barrier, int first_row, int head, int batch) {
    if (threadIdx.x != 0) {
        return;
    }
    ptx::mbarrier_arrive_expect_tx(barrier, rows * Tile::kStoredDims * kElementBytes);
#pragma unroll
    for (int box = 0; box < Tile::kBoxes; ++box) {
        ptx::cp_async_bulk_tensor_4d(shared + box * rows * Tile::kSwizzleBytes, map, barrier,
                                     box * Tile::kBoxDims, first_row, head, batch);
    }
}

// The packed rows of a tile. Those from launch.packed_rows on keep what is there: no one reads their results.
template <typename Tile>
__device__ __forceinline__ void issue_packed_copy(uint32_t shared, const Launch& launch,
                                                  uint32_t barrier, const Work& work) {
    if (threadIdx.x != 0) {
        return;
    }
    ptx::mbarrier_arrive_expect_tx(barrier, launch.packed_rows * Tile::kStoredDims * kElementBytes);
    const int first_query = work.first_row / launch.group;
#pragma unroll
    for (int box = 0; box < Tile::kBoxes; ++box) {
        ptx::cp_async_bulk_tensor_5d(shared + box * Tile::kRows * Tile::kSwizzleBytes,
                                     &launch.query, barrier,
                                     {box * Tile::kBoxDims, 0, first_query, work.kv_head, work.batch});
    }
}

// Run by one warp.
template <typename Tile>
struct CopyEngine {
    const Launch& launch;
    const Shared<Tile>& shared;

    __device__ __forceinline__ void query(int stage, const Work& work) const {
        if constexpr (Tile::kPacked) {
            issue_packed_copy<Tile>(shared.query(stage), launch, shared.query_full(stage), work);
        } else {
            issue_copy<Tile, Tile::kRows>(shared.query(stage), &launch.query,
                                          shared.query_full(stage), work.first_row, work.head,
                                          work.batch);
        }
    }
    __device__ __forceinline__ void key(int stage, const Work& work, int block) const {
        issue_copy<Tile, Tile::kKeys>(shared.key(stage), &launch.key, shared.key_full(stage),
                                      first_key<Tile>(work, block), work.kv_head, work.batch);
    }
    __device__ __forceinline__ void value(int stage, const Work& work, int block) const {
        issue_copy<Tile, Tile::kKeys>(shared.value(stage), &launch.value, shared.value_full(stage),
                                      first_key<Tile>(work, block), work.kv_head, work.batch);
    }
};

// --- by plain loads ------------------------------------------------------------------------------

// Run by all threads of the producer. If `only_finite`, returns whether anything was replaced. Two
// elements at a time: the producer has few registers, and this path is only for odd strides.
template <typename Tile, int rows, template <typename> class Rows, typename T>
__device__ __forceinline__ bool load_rows(uint32_t shared, const Rows<const T>& source,
                                          int first_row, bool only_finite) {
    constexpr int kPairs = Tile::kHeadDim / 2;
    Pair found = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * kPairs; i += kWarpgroup) {
        const int row = i / kPairs;
        const int column = i % kPairs * 2;
        Pair pair = 0;
        if (first_row + row < source.count && column < source.head_dim) {
            const auto* from = reinterpret_cast<const uint16_t*>(source.at(first_row + row)) +
                               column * source.dim_stride;
            const Pair low = from[0];
            const Pair high = from[source.dim_stride];
            pair = low | high << 16;
        }
        if (only_finite) {
            found |= nonfinite_bits<T>(pair);
            pair = finite_or_zero<T>(pair);
        }
        ptx::st_shared_32(shared + pair_offset<Tile>(rows, row, column), pair);
    }
    ptx::fence_proxy_async();
    return ptx::bar_red_or(kProducerBarrier, kWarpgroup, found != 0);
}

// Run by all threads of the producer.
template <typename Tile>
struct PlainLoads {
    using T = typename Tile::Type;

    const Launch& launch;
    const Shared<Tile>& shared;

    __device__ __forceinline__ void query(int stage, const Work& work) const {
        const Attention& problem = launch.problem;
        if constexpr (Tile::kPacked) {
            load_rows<Tile, Tile::kRows>(
                shared.query(stage),
                packed_query_rows<T>(problem, work.batch, work.kv_head, launch.group, false),
                work.first_row, false);
        } else {
            load_rows<Tile, Tile::kRows>(
                shared.query(stage),
                query_rows<T>(problem, work.batch, work.head, false),
                work.first_row, false);
        }
        if (threadIdx.x == 0) {
            ptx::mbarrier_arrive(shared.query_full(stage));
        }
    }
    __device__ __forceinline__ void key(int stage, const Work& work, int block) const {
        const Attention& problem = launch.problem;
        load_rows<Tile, Tile::kKeys>(
            shared.key(stage),
            key_rows<T>(problem, work.batch, work.kv_head, false),
            first_key<Tile>(work, block), false);
        if (threadIdx.x == 0) {
            ptx::mbarrier_arrive(shared.key_full(stage));
        }
    }
    __device__ __forceinline__ void value(int stage, const Work& work, int block) const {
        const Attention& problem = launch.problem;
        const bool any = load_rows<Tile, Tile::kKeys>(
            shared.value(stage),
            value_rows<T>(problem, work.batch, work.kv_head, false),
            first_key<Tile>(work, block), block >= work.first_diagonal);
        if (Tile::kTakesCausal && problem.causal) {
            if (threadIdx.x == kWarpSize) {
                ptx::st_shared_32(shared.nonfinite_flag(stage), any);
            }
            pass_on(shared.value_clean(stage));
        } else if (threadIdx.x == 0) {
            ptx::mbarrier_arrive(shared.value_full(stage));
        }
    }
};

// --- the order -----------------------------------------------------------------------------------

// Fetches everything in the order of use: K of each block of each tile, and V one block later, with K
// of the next block, even across tiles.
template <typename Tile, typename Copy>
__device__ __forceinline__ void produce_stream(const Launch& launch, const Shared<Tile>& shared,
                                               const Copy& copy) {
    TileScheduler<Tile> scheduler{launch};
    Ring<Tile::kQueryStages> query;
    Ring<Tile::kStages> key;
    Ring<Tile::kStages> value;
    const auto announce = [&](const Work& work) {
        ptx::mbarrier_wait(shared.query_empty(query.stage), query.parity ^ 1);
        if (threadIdx.x == 0) {
            put_work<Tile::kDivided>(shared.work(query.stage), work);
        }
    };
    const auto bring_query = [&](const Work& work) {
        announce(work);
        copy.query(query.stage, work);
        query.advance();
    };
    const auto bring_value = [&](const Work& work, int block) {
        ptx::mbarrier_wait(shared.value_empty(value.stage), value.parity ^ 1);
        copy.value(value.stage, work, block);
        value.advance();
    };
    Work value_work;
    int value_block = -1;  // whose V comes next; none at first
    for (Work work; scheduler.next(work);) {
#pragma unroll 1
        for (int block = work.blocks - 1; block >= 0; --block) {
            const bool first = block == work.blocks - 1;
            if (Tile::kStream && first) {
                bring_query(work);
            }
            ptx::mbarrier_wait(shared.key_empty(key.stage), key.parity ^ 1);
            copy.key(key.stage, work, block);
            key.advance();
            if (value_block >= 0) {
                bring_value(value_work, value_block);
            }
            // The single buffer for Q is in use until the previous tile has its last scores, so that
            // tile's last V comes first.
            if (!Tile::kStream && first) {
                bring_query(work);
            }
            value_work = work;
            value_block = block;
        }
    }
    if (value_block >= 0) {
        bring_value(value_work, value_block);
    }
    announce(Work{});
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive(shared.query_full(query.stage));
    }
}

template <typename Tile>
__device__ __forceinline__ void produce(const Launch& launch, const Shared<Tile>& shared) {
    if (!launch.tensor_maps) {
        produce_stream<Tile>(launch, shared, PlainLoads<Tile>{launch, shared});
    } else if (threadIdx.x < kWarpSize) {
        ptx::prefetch_tensormap(&launch.query);
        ptx::prefetch_tensormap(&launch.key);
        ptx::prefetch_tensormap(&launch.value);
        if (launch.out.valid) {
            ptx::prefetch_tensormap(&launch.out.map);
        }
        produce_stream<Tile>(launch, shared, CopyEngine<Tile>{launch, shared});
    } else if (Tile::kTakesCausal && launch.problem.causal) {
        scan_values<Tile>(launch, shared);
    }
}

}  // namespace flashbench::cuda::sm90
