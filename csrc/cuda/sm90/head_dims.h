// The tile of each head dim. Included by the dtype units only.
//
// Head dims are rounded up to the next one of the table; the dims past the real one are zeros. Each
// block has one warpgroup more than the table says (the producer) and an SM to itself; K and V have
// two stages each, Q has two up to head dim 128. Registers are those of a consumer thread, 168 (128
// for three) at launch. ptxas 13.0 spills up to 204 bytes for head dim 88 on sm_90a, and 40 bytes at head
// dim 64 with 192 rows if the last tiles are divided; nothing else.
//
//   head dim               rows x keys  consumers  registers  shared memory
//   32, 48, 64              192 x 128       3         160         136 KB
//   32, 64                  128 x 128       2         232         112 KB
//   80, 88                  192 x 96        3         160         216 KB
//   80, 88, 96, 112, 128    128 x 128       2         232         224 KB
//   144, 160, 176, 192      128 x 96        2         232         224 KB
//   208, 224, 240, 256      128 x 64        2         232         224 KB
//
// Rows of 88 elements are not a multiple of 32 bytes, which makes copies slow: tiles of 192 rows copy
// a third less. (So are those of 72, 104 and 120, but above head dim 96 three consumers have too few
// registers.) docs/lab/cuda-kernels.md has what each choice gained.
#pragma once

#include "../../attention.h"
#include "launch.h"

namespace flashbench::cuda::sm90 {

// Those that also store lse: fewer, as each is one more kernel to compile.
template <typename T>
void forward_with_lse(const Attention& problem, cudaStream_t stream) {
    if (problem.head_dim <= 64) {
        launch<typename Tile<T, 64, 2, 128>::WithLse>(problem, stream);
    } else if (problem.head_dim <= 80) {
        launch<typename Tile<T, 80, 2, 128>::WithLse>(problem, stream);
    } else if (problem.head_dim <= 96) {
        launch<typename Tile<T, 96, 2, 128>::WithLse>(problem, stream);
    } else if (problem.head_dim <= 112) {
        launch<typename Tile<T, 112, 2, 128>::WithLse>(problem, stream);
    } else if (problem.head_dim <= 128) {
        launch<typename Tile<T, 128, 2, 128>::WithLse>(problem, stream);
    } else if (problem.head_dim <= 192) {
        launch<typename Tile<T, 192, 2, 96>::WithLse>(problem, stream);
    } else {
        launch<typename Tile<T, 256, 2, 64>::WithLse>(problem, stream);
    }
}

// Head dims to 128.
template <typename T>
void forward_narrow(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    if (problem.head_dim <= 32) {
        launch_faster<Tile<T, 32, 3, 128>, Tile<T, 32, 2, 128>>(problem, scratch, stream,
                                                               kCost32x192, kCost32x128);
    } else if (problem.head_dim <= 48) {
        launch_faster<Tile<T, 48, 3, 128>, Tile<T, 64, 2, 128>>(problem, scratch, stream,
                                                               kCost48x192, kCost64x128);
    } else if (problem.head_dim <= 64) {
        launch_faster<Tile<T, 64, 3, 128>, Tile<T, 64, 2, 128>>(problem, scratch, stream,
                                                               kCost64x192, kCost64x128);
    } else if (problem.head_dim <= 80) {
        launch_faster<Tile<T, 80, 3, 96>, Tile<T, 80, 2, 128>>(problem, scratch, stream,
                                                              kCost80x192, kCost80x128);
    } else if (problem.head_dim <= 88) {
        launch_faster<Tile<T, 96, 3, 96>, Tile<T, 96, 2, 128>>(problem, scratch, stream,
                                                              kCost88x192, kCost88x128);
    } else if (problem.head_dim <= 96) {
        launch_either<Tile<T, 96, 2, 128>>(problem, scratch, stream);
    } else if (problem.head_dim <= 112) {
        launch_either<Tile<T, 112, 2, 128>>(problem, scratch, stream);
    } else {
        launch_either<Tile<T, 128, 2, 128>>(problem, scratch, stream);
    }
}

// Head dims above 128.
template <typename T>
void forward_wide(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    if (problem.head_dim <= 144) {
        launch_either<Tile<T, 144, 2, 96>>(problem, scratch, stream);
    } else if (problem.head_dim <= 160) {
        launch_either<Tile<T, 160, 2, 96>>(problem, scratch, stream);
    } else if (problem.head_dim <= 176) {
        launch_either<Tile<T, 176, 2, 96>>(problem, scratch, stream);
    } else if (problem.head_dim <= 192) {
        launch_either<Tile<T, 192, 2, 96>>(problem, scratch, stream);
    } else if (problem.head_dim <= 208) {
        launch_either<Tile<T, 208, 2, 64>>(problem, scratch, stream);
    } else if (problem.head_dim <= 224) {
        launch_either<Tile<T, 224, 2, 64>>(problem, scratch, stream);
    } else if (problem.head_dim <= 240) {
        launch_either<Tile<T, 240, 2, 64>>(problem, scratch, stream);
    } else {
        launch_either<Tile<T, 256, 2, 64>>(problem, scratch, stream);
    }
}

}  // namespace flashbench::cuda::sm90
