// Divides the keys of a tile among blocks of threads. Plain C++, so that tests can include it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "../both_sides.h"
#include "cost.h"

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
    int most_steps() const { return steps_each + (steps_left > 0 ? 1 : 0); }
};

inline Division divide(int steps, int splits, int cluster) {
    return {splits, cluster, steps / splits, steps % splits};
}

inline int64_t rounded_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Sizes of clusters without a second kernel, and of those that one merges. Clusters of five gained .1 % at most.
constexpr int kClusterSizes[] = {2, 3, 4, 6, 7, 8, 16};
constexpr int kMergedCluster = 8;

// The work of a launch, and the GPU's room for it.
struct Room {
    int64_t tiles;
    int64_t rows;     // of all tiles
    int64_t readers;  // tiles of rows that read the same keys
    int steps;        // of a tile
    int step_bytes;
    int multiprocessors;
    const int* at_once;  // [size]: how many clusters of that many blocks run at once; 0 for none
    bool scratch;        // a second kernel may follow
    double block_rate;   // the most bytes per nanosecond that a block reads, or computes
    double memory_rate;  // the same from memory; 0 if K and V fit in L2

    bool from_memory() const { return memory_rate > 0; }
    bool forms_clusters() const { return at_once[2] > 0; }
    bool clusters_from_memory() const { return from_memory() && forms_clusters(); }
    bool several_an_sm() const { return at_once[1] > multiprocessors; }
    // Whether so many blocks give some SMs two to read from memory and others one.
    bool is_lopsided(int64_t blocks) const {
        return clusters_from_memory() && tiles <= multiprocessors &&
               8 * blocks > 9 * multiprocessors;
    }
};

// Bytes per nanosecond of each block while so many clusters of `size` run.
inline double rate_of_block(const Room& room, int64_t running, int size) {
    double rate = std::min(room.block_rate,
                           cost::kSharedRate * static_cast<double>(room.at_once[size]) /
                               static_cast<double>(running));
    if (size == 2) {
        rate = std::min(rate, cost::kPairRate);
    }
    if (size >= cost::kGpcBlocks) {
        rate = std::min(rate, cost::kGpcRate / size);
    }
    if (room.from_memory()) {
        const int64_t blocks = running * size;
        const bool late = size > 1 && 2 * blocks > room.multiprocessors;
        const double together =
            room.readers > 1 ? (size > 1 ? cost::kClusterReadersRate : cost::kReadersRate)
            : late           ? cost::kClusterMemoryRate
                             : cost::kMemoryRate;
        const auto count = static_cast<double>(blocks);
        rate = std::min(rate, cost::limited_by(room.memory_rate * count, together) / count);
    }
    return rate;
}

// The time of a division into `splits` with clusters of `size`.
inline double predicted_time(const Room& room, int splits, int size) {
    const int64_t places = room.at_once[size];
    const int64_t clusters = room.tiles * (splits / size);
    const int64_t rounds = rounded_up(clusters, places);
    const auto bytes = static_cast<double>(rounded_up(room.steps, splits) * room.step_bytes);
    const auto round_time = [&](int64_t running) {
        return cost::kBlock + bytes / rate_of_block(room, running, size);
    };
    // Where several blocks share an SM, those of the last round start one by one.
    const int64_t last = room.several_an_sm() ? std::min(clusters, places)
                                              : clusters - (rounds - 1) * places;
    const int parts = splits / size;
    const double part = room.forms_clusters() ? cost::kPart : cost::kOtherPart;
    const double row = parts * cost::kRowPart + (room.forms_clusters() ? 0.0 : cost::kOtherRow);
    return (rounds > 1 ? static_cast<double>(rounds - 1) * round_time(places) : 0.0) + round_time(last) +
           (size > 1 ? cost::kCluster : 0.0) +
           (parts > 1 ? (size > 1 ? cost::kKernel : cost::kLateKernel) + parts * part +
                            static_cast<double>(room.rows) * row
                      : 0.0);
}

// The division with the least predicted time, or in clusters from memory within one percent of it; of equal ones the
// first.
inline Division best_division(const Room& room) {
    int splits = 1;
    int cluster = 1;
    // Every SM has a block and none waits: dividing would only add work.
    if (room.tiles >= room.multiprocessors && room.tiles <= room.at_once[1]) {
        return divide(room.steps, splits, cluster);
    }
    const double gain = room.clusters_from_memory() ? cost::kGain : 1.0;
    double least = std::numeric_limits<double>::infinity();
    const auto consider = [&](int new_splits, int size) {
        if (new_splits > room.steps || room.at_once[size] == 0 ||
            (new_splits > 1 && room.is_lopsided(room.tiles * new_splits))) {
            return;
        }
        const double time = predicted_time(room, new_splits, size);
        if (time < gain * least) {
            least = time;
            splits = new_splits;
            cluster = size;
        }
    };
    consider(1, 1);
    for (const int size : kClusterSizes) {
        // A cluster that fills a GPC reads as fast as smaller ones on some GPUs, and takes a sixth longer on others.
        if (size >= cost::kGpcBlocks && room.from_memory()) {
            continue;
        }
        // With several rounds of tiles, halves suffice to balance the last one.
        if (room.tiles <= room.at_once[1] || size == 2) {
            consider(size, size);
        }
    }
    const auto consider_two_kernels = [&](int size, int64_t clusters) {
        const auto parts = static_cast<int>(std::min<int64_t>(clusters, room.steps / size));
        if (parts > 1) {
            consider(parts * size, size);
        }
    };
    if (room.scratch) {
        const int blocks = room.clusters_from_memory()
                               ? std::min(room.at_once[1], room.multiprocessors)
                               : room.at_once[1];
        const int64_t most = blocks / room.tiles;
        consider_two_kernels(1, most);
        if (!room.forms_clusters()) {
            // Nothing else divides keys, and adding up hundreds of parts takes longer than reading more keys.
            for (const int64_t fewer : {2, 3, 4, 6, 8, 12, 16, 32}) {
                consider_two_kernels(1, most / fewer);
            }
        }
        // A GPC has room for two clusters of eight; one in each reads faster.
        consider_two_kernels(kMergedCluster, (room.at_once[kMergedCluster] + 1) / 2 / room.tiles);
    }
    return divide(room.steps, splits, cluster);
}

}  // namespace flashbench::cuda::decode
