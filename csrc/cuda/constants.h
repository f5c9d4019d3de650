// Constants of all CUDA units: constexpr, never macros.
#pragma once

#include <cstdint>

namespace flashbench::cuda {

constexpr int kWarpSize = 32;

// fp16 and bf16 elements are moved in vectors ("chunks") of 16 bytes.
constexpr int kElementBytes = 2;
constexpr int kChunkBytes = 16;
constexpr int kChunkElements = kChunkBytes / kElementBytes;

// Supported head dims.
constexpr int kMinHeadDim = 32;
constexpr int kMaxHeadDim = 256;

// More dynamic shared memory than this needs cudaFuncSetAttribute.
constexpr int kDefaultSharedBytes = 48 * 1024;
// The most that a block may have on every chip from sm_80 on; sm_86 and sm_89 have the least.
constexpr int kMaxSharedBytes = 99 * 1024;

// The most blocks of threads in a grid's y.
constexpr int kMaxGridRows = 65535;

constexpr float kLog2E = 1.4426950408889634f;

// The base of a row's probabilities follows its largest score only once that is 2^8 times as likely.
// The output is then rarely rescaled, and probabilities up to 256 cost no accuracy (as in
// FlashAttention-4).
constexpr float kBaseSlack = 8.0f;

}  // namespace flashbench::cuda
