// The constants that all CUDA units share. constexpr, never macros.
#pragma once

#include <cstdint>

namespace flashbench::cuda {

constexpr int kWarpSize = 32;

// fp16 and bf16 elements are moved in vectors ("chunks") of 16 bytes.
constexpr int kElementBytes = 2;
constexpr int kChunkBytes = 16;
constexpr int kChunkElements = kChunkBytes / kElementBytes;

// Head dims that the kernels take.
constexpr int kMinHeadDim = 32;
constexpr int kMaxHeadDim = 256;

// Dynamic shared memory above this needs cudaFuncSetAttribute.
constexpr int kDefaultSharedBytes = 48 * 1024;
// What one block may have on every chip from sm_80 on; sm_86 and sm_89 have the least.
constexpr int kMaxSharedBytes = 99 * 1024;

// Blocks of threads in y of a grid.
constexpr int kMaxGridRows = 65535;

constexpr float kLog2E = 1.4426950408889634f;

// The base of a row's probabilities follows its largest score only once that is 2^8 times as likely:
// the output then seldom has to be rescaled, and probabilities up to 256 cost no accuracy (as
// FlashAttention-4 does).
constexpr float kBaseSlack = 8.0f;

}  // namespace flashbench::cuda
