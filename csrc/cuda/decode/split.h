// Divides the keys of a tile among blocks of threads. Plain C++, so that tests can include it.
#pragma once

#include <cstdint>

#include "../both_sides.h"

namespace flashbench::cuda::decode {

// A step is the keys that a group of warps takes at a time. Split i takes the steps from first_step(i)
// to first_step(i + 1); splits differ by at most one step. Every `cluster` splits form a cluster of
// blocks; if a tile has several clusters, a second kernel merges them.
struct Division {
    int splits;
    int cluster;
    int steps_each;
    int steps_left;  // this many splits, the first ones, take one more

    FLASHBENCH_BOTH_SIDES int first_step(int split) const {
        return split * steps_each + (split < steps_left ? split : steps_left);
    }
    FLASHBENCH_BOTH_SIDES int clusters() const { return splits / cluster; }
};

inline Division divide(int steps, int splits, int cluster) {
    return {splits, cluster, steps / splits, steps % splits};
}

// The overhead of a division, as the bytes that a block could have read in that time
// (docs/lab/cuda-kernels.md has the measurements).
constexpr int64_t kBlockCost = 192 << 10;   // to start and to end a block
constexpr int64_t kClusterCost = 64 << 10;  // more, if it is one of a cluster
constexpr int64_t kKernelCost = 256 << 10;  // more, if a second kernel follows
constexpr int64_t kPartCost = 2 << 10;      // more, for each part of a row that it adds up

// Blocks of a cluster share one GPC's path to memory, so they read slower, the more so the larger the
// cluster. Sizes in between do not divide the GPCs well.
struct ClusterSize {
    int blocks;
    int percent;  // time to read, relative to blocks without a cluster
};
constexpr ClusterSize kClusterSizes[] = {{2, 110}, {3, 110}, {4, 110}, {5, 110},
                                         {6, 110}, {7, 110}, {8, 110}, {16, 125}};
// The clusters that a second kernel merges. A GPC has room for two.
constexpr ClusterSize kManyClusters{8, 110};

inline int64_t rounded_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The work of a launch, and the GPU's room for it.
struct Room {
    int64_t tiles;
    int steps;          // of a tile
    int groups;         // of warps in a block: the steps it takes per round
    int64_t round_bytes;
    int multiprocessors;
    const int* at_once;  // [size]: how many clusters of that many blocks run at once; 0 for none
    bool scratch;        // a second kernel may follow
};

// The fastest division by the costs above.
inline Division best_division(const Room& room) {
    int splits = 1;
    int cluster = 1;
    // Every SM has a block and none waits: dividing would only add work.
    if (room.tiles >= room.multiprocessors && room.tiles <= room.at_once[1]) {
        return divide(room.steps, splits, cluster);
    }
    int64_t least = INT64_MAX;
    const auto consider = [&](int new_splits, ClusterSize size, int64_t cost) {
        if (new_splits > room.steps || room.at_once[size.blocks] == 0) {
            return;
        }
        const int64_t bytes =
            rounded_up(rounded_up(room.steps, new_splits), room.groups) * room.round_bytes;
        const int64_t rounds = rounded_up(room.tiles * (new_splits / size.blocks),
                                          room.at_once[size.blocks]);
        const int64_t total = rounds * (bytes * size.percent / 100 + kBlockCost) + cost;
        if (total < least) {
            least = total;
            splits = new_splits;
            cluster = size.blocks;
        }
    };
    consider(1, {1, 100}, 0);
    for (const ClusterSize& size : kClusterSizes) {
        // With several rounds of tiles, halves suffice to balance the last one.
        if (room.tiles <= room.at_once[1] || size.blocks == 2) {
            consider(size.blocks, size, kClusterCost);
        }
    }
    const auto consider_two_kernels = [&](ClusterSize size, int64_t clusters) {
        const int64_t most = room.steps / size.blocks;
        const int parts = static_cast<int>(clusters < most ? clusters : most);
        if (parts > 1) {
            consider(parts * size.blocks, size, kClusterCost + kKernelCost + parts * kPartCost);
        }
    };
    if (room.scratch) {
        consider_two_kernels({1, 100}, room.at_once[1] / room.tiles);
        consider_two_kernels(kManyClusters,
                             (room.at_once[kManyClusters.blocks] + 1) / 2 / room.tiles);
    }
    return divide(room.steps, splits, cluster);
}

}  // namespace flashbench::cuda::decode
