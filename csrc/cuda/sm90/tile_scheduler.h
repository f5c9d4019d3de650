// The tile scheduler: the tiles of a block, and their order.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "../../attention.h"
#include "../constants.h"
#include "../ptx.h"
#include "out_boxes.h"
#include "tail.h"

namespace flashbench::cuda::sm90 {

// The arguments of a launch.
struct Launch {
    CUtensorMap query;
    CUtensorMap key;
    CUtensorMap value;
    OutMap out;  // not for packed tiles
    Attention problem;
    float scale_log2;   // scale * log2(e), positive
    int tiles;          // of one head
    int heads;          // of the whole batch
    int group;          // query heads of a key head
    int packed_rows;    // of a tile, if it is packed: whole queries
    int section;        // heads whose tiles are scheduled together
    bool by_head;       // the tiles of a section head by head; otherwise its longest ones first
    int slots;          // of a round: blocks of threads that take part
    int rounds;         // of a section
    int rest;           // heads from this one on are the last section (sections.h)
    bool tensor_maps;   // the maps are valid: the copy engine can read q, k and v
    bool out_vectors;   // as in Rows, of merged parts
    Tail tail;          // if the tile is divided
};

// One tile. Its blocks of keys are visited from the last to the first.
struct Work {
    int batch;
    int head;  // the key head, if packed
    int kv_head;
    int first_row;
    int blocks;
    // Blocks from this one on contain keys that are masked for some row of the tile.
    int first_diagonal;
    // For a divided tile: its first block, from which blocks are counted, and the place of its part;
    // kWhole for a whole tile.
    int first_block;
    int part;
};
constexpr int kWhole = -1;

template <typename Tile>
__device__ __forceinline__ int first_key(const Work& work, int block) {
    return (work.first_block + block) * Tile::kKeys;
}

// Heads of one problem of the batch whose rows are cut into tiles, the rows of each, and those that a tile
// uses. Packed rows are those of a key head.
template <typename Tile>
__device__ __forceinline__ int tiled_heads(const Launch& launch) {
    return static_cast<int>(Tile::kPacked ? launch.problem.kv_heads : launch.problem.heads);
}
template <typename Tile>
__device__ __forceinline__ int rows_of_head(const Launch& launch) {
    return static_cast<int>(launch.problem.q_len) * (Tile::kPacked ? launch.group : 1);
}
template <typename Tile>
__device__ __forceinline__ int used_rows(const Launch& launch) {
    return Tile::kPacked ? launch.packed_rows : Tile::kRows;
}

// The last key that a row of a head sees, or a packed row of a key head, if causal.
template <typename Tile>
__device__ __forceinline__ int position_of(const Launch& launch, int row) {
    const int query = Tile::kPacked ? row / launch.group : row;
    return query + static_cast<int>(launch.problem.causal_offset);
}

// The blocks of keys of a divided tile, those that some row sees if tiles differ. `tile`: of its head.
template <typename Tile>
__device__ __forceinline__ int blocks_of_tile(const Launch& launch, int tile) {
    int keys = static_cast<int>(launch.problem.k_len);
    if constexpr (Tile::kUneven) {
        const int last_row =
            min((tile + 1) * used_rows<Tile>(launch), rows_of_head<Tile>(launch)) - 1;
        keys = min(keys, position_of<Tile>(launch, last_row) + 1);
    }
    return blocks_of(keys, Tile::kKeys);
}

// The steps of a divided tile before its first block (tail.h).
template <typename Tile>
__device__ __forceinline__ constexpr int start_of_tile() {
    return Tile::kUneven ? start_steps(Tile::kKeys) : 0;
}

struct TailPlace {
    int tile;
    int step;  // of the tile
};

// Where a step of the tail's sequence lies. Called by whole warps: if tiles differ, each lane looks at one.
template <typename Tile>
__device__ __forceinline__ TailPlace place_in_tail(const Launch& launch, int step) {
    if constexpr (!Tile::kUneven) {
        const int of_tile = blocks_of_tile<Tile>(launch, 0);
        const int tile = step / of_tile;
        return {tile, step - tile * of_tile};
    } else {
        const int head = step / launch.tail.head_steps;
        const int lane = static_cast<int>(threadIdx.x % kWarpSize);
        int left = step - head * launch.tail.head_steps;
        for (int first = 0;; first += kWarpSize) {
            const int own = first + lane < launch.tiles
                                ? start_of_tile<Tile>() + blocks_of_tile<Tile>(launch, first + lane)
                                : 0;
            int end = own;
#pragma unroll
            for (int distance = 1; distance < kWarpSize; distance *= 2) {
                const int before = __shfl_up_sync(0xffffffffu, end, distance);
                end += lane >= distance ? before : 0;
            }
            const unsigned later = __ballot_sync(0xffffffffu, left < end);
            if (later != 0) {
                const int found = __ffs(later) - 1;
                return {head * launch.tiles + first + found,
                        left - __shfl_sync(0xffffffffu, end - own, found)};
            }
            left -= __shfl_sync(0xffffffffu, end, kWarpSize - 1);
        }
    }
}

// The tail's steps before a tile. Called by whole warps.
template <typename Tile>
__device__ __forceinline__ int steps_before(const Launch& launch, int tile) {
    if constexpr (!Tile::kUneven) {
        return tile * blocks_of_tile<Tile>(launch, 0);
    } else {
        const int head = tile / launch.tiles;
        int steps = 0;
        for (int i = static_cast<int>(threadIdx.x % kWarpSize); i < tile - head * launch.tiles;
             i += kWarpSize) {
            steps += start_of_tile<Tile>() + blocks_of_tile<Tile>(launch, i);
        }
        return head * launch.tail.head_steps + __reduce_add_sync(0xffffffffu, steps);
    }
}

// The producer publishes the next tile in shared memory (32 bytes), so consumers need no divisions. No
// blocks: there is no further tile.
template <bool divided>
__device__ __forceinline__ void put_work(uint32_t shared, const Work& work) {
    ptx::st_shared_128(shared, make_uint4(work.first_row, work.blocks, work.first_diagonal,
                                          work.batch));
    ptx::st_shared_32(shared + 16, work.head);
    ptx::st_shared_32(shared + 20, work.kv_head);
    if constexpr (divided) {
        ptx::st_shared_32(shared + 24, work.first_block);
        ptx::st_shared_32(shared + 28, work.part);
    }
}

// Called by whole warps. Lane 0 reads, because it also releases the slot for the warp. For the shuffles
// see TileScheduler.
template <bool divided>
__device__ __forceinline__ Work get_work(uint32_t shared) {
    int fields[8] = {};
    if (threadIdx.x % kWarpSize == 0) {
        const uint4 first = ptx::ld_shared_128(shared);
        fields[0] = static_cast<int>(first.x);
        fields[1] = static_cast<int>(first.y);
        fields[2] = static_cast<int>(first.z);
        fields[3] = static_cast<int>(first.w);
        fields[4] = static_cast<int>(ptx::ld_shared_32(shared + 16));
        fields[5] = static_cast<int>(ptx::ld_shared_32(shared + 20));
        if constexpr (divided) {
            fields[6] = static_cast<int>(ptx::ld_shared_32(shared + 24));
            fields[7] = static_cast<int>(ptx::ld_shared_32(shared + 28));
        }
    }
    Work work;
    work.first_row = __shfl_sync(0xffffffffu, fields[0], 0);
    work.blocks = __shfl_sync(0xffffffffu, fields[1], 0);
    work.first_diagonal = __shfl_sync(0xffffffffu, fields[2], 0);
    work.batch = __shfl_sync(0xffffffffu, fields[3], 0);
    work.head = __shfl_sync(0xffffffffu, fields[4], 0);
    work.kv_head = __shfl_sync(0xffffffffu, fields[5], 0);
    work.first_block = divided ? __shfl_sync(0xffffffffu, fields[6], 0) : 0;
    work.part = divided ? __shfl_sync(0xffffffffu, fields[7], 0) : kWhole;
    return work;
}

// Walks over the tiles of a block of threads: one tile per round, forward over the grid in one round and
// backward in the next, so that every block gets equal work if tiles get shorter.
//
// Full: the tiles of a head together, to share its keys in L2. Causal: the tiles with the most keys
// first, so that short ones fill the end, one section of heads at a time, so that several tiles share
// each head's keys here too; or head by head, all but the rest (sections.h), so that long and short tiles run at the
// same time. A section begins with a new round.
//
// Called by whole warps. The shuffle makes the tile provably warp-uniform: ptxas then keeps the state of
// the surrounding loops in uniform registers, worth 5 % of a kernel's time.
template <typename Tile>
struct TileScheduler {
    const Launch& launch;
    int first_head = 0;  // of the section
    int round = 0;       // in the section
    bool back = false;
    int taken = 0;  // steps of its share of the tail

    // False if no tile is left.
    __device__ __forceinline__ bool next(Work& work) {
        if constexpr (Tile::kPacked) {
            return next_of_tail(work);
        } else if constexpr (Tile::kDivided) {
            return next_of_tail(work) || next_whole(work);
        } else {
            return next_whole(work);
        }
    }

private:
    // The share's part of the next tile of the tail.
    __device__ __forceinline__ bool next_of_tail(Work& work) {
        const Tail& tail = launch.tail;
        const int first = tail.first_step(blockIdx.x) + taken;
        const int left = tail.first_step(blockIdx.x + 1) - first;
        if (blockIdx.x >= tail.shares || left == 0) {
            return false;
        }
        const TailPlace start = place_in_tail<Tile>(launch, first);
        const int tile = __shfl_sync(0xffffffffu, start.tile, 0);
        const int step = __shfl_sync(0xffffffffu, start.step, 0);
        const int index = tail.first_tile + tile;
        const int tile_of_head = index % launch.tiles;
        const int before = start_of_tile<Tile>();
        const int steps = min(before + blocks_of_tile<Tile>(launch, tile_of_head) - step, left);
        place(work, index / launch.tiles, tile_of_head);
        work.first_block = max(0, step - before);
        work.blocks = step + steps - before - work.first_block;
        if (Tile::kUneven && work.blocks <= 0) {
            return false;  // the share ends before the tile's first block
        }
        work.part = Tail::part(blockIdx.x, tile);
        if (Tile::kPacked && launch.problem.causal) {
            const int diagonal = (position_of<Tile>(launch, work.first_row) + 1) / Tile::kKeys;
            work.first_diagonal = max(0, diagonal - work.first_block);
        }
        taken += steps;
        return true;
    }

    __device__ __forceinline__ void place(Work& work, int batch_head, int tile) {
        const int heads = tiled_heads<Tile>(launch);
        work.batch = batch_head / heads;
        work.head = batch_head % heads;
        work.kv_head = Tile::kPacked ? work.head : work.head / launch.group;
        work.first_row = tile * used_rows<Tile>(launch);
        work.first_diagonal = static_cast<int>(launch.problem.k_len);
    }

    __device__ __forceinline__ bool next_whole(Work& work) {
        int index;
        int section;
        bool rest;
        do {
            if (round == launch.rounds && first_head < launch.rest) {
                round = 0;
                first_head += launch.section;
            }
            rest = first_head >= launch.rest;
            const int left = launch.heads - first_head;
            section = rest ? left : min(launch.section, left);
            const int slots = static_cast<int>(rest ? gridDim.x : launch.slots);
            if (left <= 0 || (rest && round * slots >= section * launch.tiles)) {
                return false;
            }
            // For blocks beyond the slots it is past the section, or below zero.
            index = round * slots + (back ? slots - 1 - blockIdx.x : blockIdx.x);
            index = __shfl_sync(0xffffffffu, index, 0);
            back = !back;
            ++round;
        } while (index < 0 || index >= section * launch.tiles);
        const Attention& problem = launch.problem;
        const bool causal = !Tile::kDivided && problem.causal;
        int batch_head = index / launch.tiles;
        int tile = index % launch.tiles;
        if (causal) {
            const bool by_head = launch.by_head && !rest;
            batch_head = first_head + (by_head ? index / launch.tiles : index % section);
            tile = launch.tiles - 1 - (by_head ? index % launch.tiles : index / section);
        }
        place(work, batch_head, tile);
        const int k_len = static_cast<int>(problem.k_len);
        int end_key = k_len;
        if (causal) {
            const int end_row = min(work.first_row + Tile::kRows,
                                    static_cast<int>(problem.q_len));
            const int offset = static_cast<int>(problem.causal_offset);
            end_key = min(k_len, end_row + offset);
            work.first_diagonal = (work.first_row + offset + 1) / Tile::kKeys;
        }
        work.blocks = (end_key + Tile::kKeys - 1) / Tile::kKeys;
        work.first_block = 0;
        work.part = kWhole;
        return true;
    }
};

}  // namespace flashbench::cuda::sm90
