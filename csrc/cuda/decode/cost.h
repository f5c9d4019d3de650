// What a division of keys (split.h) costs, in nanoseconds and bytes per nanosecond, fitted to an H200
// (docs/lab/cuda-kernels.md, tests/kernels/native/check_split_choice.cpp). Plain C++, so that tests can include it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace flashbench::cuda::decode::cost {

constexpr double kBlock = 4600;       // a launch, a block's first copies and its end
constexpr double kCluster = 300;      // more, for the blocks of a cluster
constexpr double kKernel = 1300;      // more, if a second kernel follows clusters
constexpr double kLateKernel = 1800;  // or single blocks, whose end it waits for before it starts
constexpr double kPart = 12;          // more, for each part of a row that it adds up
constexpr double kOtherPart = 22;     // the same where blocks form no clusters
constexpr double kOtherRow = 8;       // more there, for each row
constexpr double kRowPart = 0.5;      // more, for each part of all rows together

constexpr double kPairRate = 95;  // the most for a block in a cluster of two
// The most that a block's share is if L2 serves all SMs, or if blocks fill a GPC, as the larger clusters do.
constexpr double kSharedRate = 76;
constexpr int kGpcBlocks = 16;
constexpr double kGpcRate = 1400;
// All blocks together, from memory. Of clusters that take more than half of the SMs, some end late. Where several tiles
// of rows read the same keys, L2 serves all but the first.
constexpr double kMemoryRate = 4400;
constexpr double kClusterMemoryRate = 4280;
constexpr double kReadersRate = 6500;
constexpr double kClusterReadersRate = 5500;

// Clusters that read from memory: a later candidate, which often has more blocks, must gain one percent.
constexpr double kGain = 0.99;

// Bytes of K and V per nanosecond that a block of Hopper's tiles computes at most, by its warps of 16 rows, and that it
// reads from memory. `readers`: as in Room; above head dim 128 an SM has twice the warps for one.
constexpr double block_rate(int head_dim, int row_warps, int64_t readers) {
    if (head_dim > 128 && readers > 1) {
        return 70;
    }
    return row_warps == 1 ? (head_dim < 128 ? 95 : 135) : row_warps == 2 ? 60 : 35;
}
constexpr double memory_rate(int head_dim, int blocks_an_sm) {
    return blocks_an_sm == 2 ? (head_dim < 128 ? 65 : 58) : head_dim > 128 ? 105 : 95;
}

// The same where blocks form no clusters (the tiles of other chips than Hopper).
constexpr double other_block_rate(int head_dim, int blocks_an_sm) {
    return blocks_an_sm > 1 ? (head_dim < 128 ? 39 : 60) : head_dim < 128 ? 57 : 66;
}
constexpr double other_memory_rate(int head_dim, int blocks_an_sm) {
    return blocks_an_sm > 1 ? 38 : memory_rate(head_dim, blocks_an_sm);
}

// The rate of what two rates limit: near the lower one, and 8 % below where both are equal.
inline double limited_by(double a, double b) {
    const auto power_of_eight = [](double x) { return x * x * x * x * x * x * x * x; };
    const double ratio = std::min(a, b) / std::max(a, b);
    return std::min(a, b) / std::sqrt(std::sqrt(std::sqrt(1 + power_of_eight(ratio))));
}

}  // namespace flashbench::cuda::decode::cost
