// The host side that the backward kernels of all families share: scratch memory, the plan, and the kernel
// before theirs.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "../attention.h"
#include "backward.h"
#include "backward_prepare.h"
#include "backward_walk.h"
#include "constants.h"
#include "device.h"
#include "rows.h"

namespace flashbench::cuda {

// Tiles of queries of a head.
template <typename Tile>
int64_t query_tiles_of(const Attention& forward) {
    return (forward.q_len + Tile::kQueries - 1) / Tile::kQueries;
}

template <typename Tile>
int64_t key_blocks_of(const Attention& forward) {
    return (forward.k_len + Tile::kKeys - 1) / Tile::kKeys;
}

// The scratch memory of a call: lse and delta of every query, dq in fp32, the turns of a deterministic
// call, and dk and dv of parts of groups. All are words of four bytes.
template <typename Tile>
struct BackwardScratch {
    float* lse;
    float* delta;
    float* dq;
    unsigned* turns;
    float* sums;

    static int64_t turns_of(int64_t tiles, bool deterministic) {
        return deterministic ? (tiles * Tile::kTurns + 3) / 4 * 4 : 0;
    }

    static int64_t words(int64_t tiles, bool deterministic) {
        return tiles * (2 * Tile::kQueries + Tile::kTileGradients) + turns_of(tiles, deterministic);
    }

    BackwardScratch(void* memory, int64_t tiles, bool deterministic)
        : lse(static_cast<float*>(memory)),
          delta(lse + tiles * Tile::kQueries),
          dq(delta + tiles * Tile::kQueries),
          turns(deterministic
                    ? reinterpret_cast<unsigned*>(dq + tiles * Tile::kTileGradients)
                    : nullptr),
          sums(dq + tiles * Tile::kTileGradients + turns_of(tiles, deterministic)) {}
};

template <typename Tile>
int64_t backward_scratch_bytes(const AttentionBackward& problem, int parts = 1) {
    const Attention& forward = problem.forward;
    const int64_t tiles = query_tiles_of<Tile>(forward) * forward.batch * forward.heads;
    const int64_t sums = parts > 1 ? 2 * parts * forward.batch * forward.kv_heads *
                                         key_blocks_of<Tile>(forward) * Tile::kKeys * Tile::kHeadDim
                                   : 0;
    return 4 * (BackwardScratch<Tile>::words(tiles, problem.deterministic) + sums);
}

// The grid of the kernels that take one block of threads for each tile of queries of a head.
inline dim3 query_grid(const BackwardPlan& plan, const Attention& forward) {
    return dim3(static_cast<unsigned>(forward.batch * forward.heads * plan.query_tiles));
}

// Throws std::invalid_argument if a grid is too small for the problem.
template <typename Tile>
BackwardPlan backward_plan(const AttentionBackward& problem, void* scratch, int parts = 1) {
    const Attention& forward = problem.forward;
    const int64_t heads = forward.batch * forward.heads;
    const int64_t all_kv_heads = forward.batch * forward.kv_heads;
    const int64_t query_tiles = query_tiles_of<Tile>(forward);
    const int64_t key_blocks = key_blocks_of<Tile>(forward);
    constexpr int64_t kMost = std::numeric_limits<int>::max() / 2;
    if (heads * query_tiles > kMost || all_kv_heads * key_blocks > kMost) {
        throw std::invalid_argument("batch * heads times a length is too large for one CUDA grid");
    }
    const auto of_keys_in_vectors = [&forward](const void* base, const Strides& strides) {
        return moves_in_vectors(base, strides, forward.batch, forward.kv_heads, forward.k_len);
    };
    const BackwardScratch<Tile> memory(scratch, heads * query_tiles, problem.deterministic);
    BackwardPlan plan{};
    plan.lse = memory.lse;
    plan.delta = memory.delta;
    plan.dq = memory.dq;
    plan.turns = memory.turns;
    plan.sums = memory.sums;
    plan.dk = problem.dk;
    plan.dv = problem.dv;
    plan.dk_strides = problem.dk_strides;
    plan.dv_strides = problem.dv_strides;
    plan.heads = static_cast<int>(forward.heads);
    plan.kv_heads = static_cast<int>(forward.kv_heads);
    plan.group = static_cast<int>(forward.heads / forward.kv_heads);
    plan.parts = parts;
    plan.q_len = static_cast<int>(forward.q_len);
    plan.k_len = static_cast<int>(forward.k_len);
    plan.head_dim = static_cast<int>(forward.head_dim);
    plan.query_tiles = static_cast<int>(query_tiles);
    plan.key_blocks = static_cast<int>(key_blocks);
    plan.all_kv_heads = static_cast<int>(all_kv_heads);
    plan.section = heads_in_backward_section(forward, Tile::kHeadDim, all_kv_heads);
    plan.causal = forward.causal;
    // Positions further out hide nothing more, or everything.
    plan.causal_offset = static_cast<int>(
        std::clamp<int64_t>(forward.causal_offset, -forward.q_len, forward.k_len));
    plan.scale = forward.scale;
    plan.scale_log2 = forward.scale * kLog2E;
    plan.dk_vectors = of_keys_in_vectors(problem.dk, problem.dk_strides);
    plan.dv_vectors = of_keys_in_vectors(problem.dv, problem.dv_strides);
    return plan;
}

// Whether the rows of a tensor of q's shape move in vectors.
inline bool of_queries_in_vectors(const Attention& forward, const void* base,
                                  const Strides& strides) {
    return moves_in_vectors(base, strides, forward.batch, forward.heads, forward.q_len);
}

// The row of a causal mask that sees one key; -1: none does. Its weight is 1 whatever its score, and dq 0,
// but its dP and delta are rounded differently.
inline int row_of_one_key(const Attention& forward) {
    const int64_t row = -forward.causal_offset;
    return forward.causal && row >= 0 && row < forward.q_len ? static_cast<int>(row) : -1;
}

template <typename Tile>
void launch_prepare(const AttentionBackward& problem, const BackwardPlan& plan,
                    cudaStream_t stream) {
    const Attention& forward = problem.forward;
    prepare_backward<Tile><<<query_grid(plan, forward), kRowThreads, 0, stream>>>(
        problem, const_cast<float*>(plan.lse), const_cast<float*>(plan.delta), plan.dq, plan.turns,
        scores_matter(forward) ? kLog2E : 0.0f,
        of_queries_in_vectors(forward, forward.out, forward.out_strides),
        of_queries_in_vectors(forward, problem.dout, problem.dout_strides));
    check(cudaGetLastError());
}

}  // namespace flashbench::cuda
