// Compares how decode divides keys, and which tile it takes, with what was measured on H200s (docs/lab/cuda-kernels.md,
// "How to divide"): exits with 1 and a line about each problem whose choice takes more than 5 % longer than the fastest
// (up to 7 % in three cells).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "../../../csrc/cuda/decode/blocks_an_sm.h"
#include "../../../csrc/cuda/decode/l2.h"
#include "../../../csrc/cuda/decode/split.h"
#include "split_cells.h"
#include "split_memory_cells.h"
#include "split_other_cells.h"

using namespace flashbench::cuda::decode;

namespace {

// How many clusters of so many blocks an H200 runs at once, with a block or two an SM.
const std::vector<int> kPlaces = {0, 132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7};
const std::vector<int> kPlacesOfTwo = {0, 264, 132, 78, 60, 44, 34, 30, 30, 18, 14, 14, 14, 14, 14, 14, 14};

// K and V in the size of an H200's L2.
template <typename AnyCell>
double l2_share(const AnyCell& cell) {
    return static_cast<double>(cell.tiles * cell.keys * cell.head_dim * 4) / (60 << 20);
}

template <typename AnyCell>
bool are_from_memory(const AnyCell& cell) {
    return l2_share(cell) > kStaysInL2;
}

// The time of the parts nearest to those of the division; `alone`: by the tile that has an SM to itself, which takes
// steps of 64, 32 or 16 keys, by head dim; the other takes 16.
template <typename AnyCell>
double chosen_time(const AnyCell& cell, const std::map<int, double>& times, bool alone) {
    const int blocks_an_sm = alone ? 1 : cell.head_dim == 256 ? 2 : cell.head_dim == 128 ? 3 : 4;
    const int keys = alone ? 4096 / cell.head_dim : 16;
    std::vector<int> places(17);
    places[1] = 132 * blocks_an_sm;
    const Division d = best_division(
        {cell.tiles, cell.rows * cell.tiles, 1, static_cast<int>(rounded_up(cell.keys, keys)),
         cell.head_dim * 4 * keys, 132, places.data(), true,
         cost::other_block_rate(cell.head_dim, blocks_an_sm),
         are_from_memory(cell) ? cost::other_memory_rate(cell.head_dim, blocks_an_sm) : 0.0});
    const auto distance = [&](const auto& one) { return std::abs(std::log(one.first * 1.0 / d.splits)); };
    return std::min_element(times.begin(), times.end(), [&](const auto& one, const auto& other) {
               return distance(one) < distance(other);
           })->second;
}

// Infinity if nothing was timed.
template <typename Times>
double least(const Times& times) {
    double time = std::numeric_limits<double>::infinity();
    for (const auto& one : times) {
        time = std::min(time, one.second);
    }
    return time;
}

// How much longer than the fastest the choices take.
struct Losses {
    int cells = 0;
    double sum = 0, most = 0;

    // Whether `time` is at most `at_most` times that of the fastest; else prints the cell and its `choice`.
    template <typename AnyCell>
    bool add(const AnyCell& cell, const char* choice, double time, double best, double at_most) {
        ++cells;
        sum += time / best - 1;
        most = std::max(most, time / best - 1);
        if (time <= at_most * best) {
            return true;
        }
        std::printf("%lld tiles, %lld keys, head dim %d: chosen %s (%.2f), best %.2f\n",
                    static_cast<long long>(cell.tiles), static_cast<long long>(cell.keys),
                    cell.head_dim, choice, time, best);
        return false;
    }
    void print(const char* what) const {
        std::printf("%d cells %s: %.2f %% over the fastest in the mean, %.1f %% at most\n", cells, what,
                    100 * sum / cells, 100 * most);
    }
};

bool check(const OtherCell& cell, Losses& losses) {
    return losses.add(cell, "parts", chosen_time(cell, cell.us, false), least(cell.us), 1.05);
}

// As forward_other asks.
bool check(const OtherTileCell& cell, Losses& losses) {
    const bool alone = one_block_an_sm_on_other_chips(cell.tiles, 132);
    return losses.add(cell, alone ? "an SM alone" : "several blocks an SM",
                      chosen_time(cell, alone ? cell.alone : cell.several, alone),
                      std::min(least(cell.alone), least(cell.several)), cell.at_most);
}

// As forward_few_rows and forward_head_dim ask. Long takes steps of 32 keys at head dim 128, of 64 or 16 at
// the others.
bool check(const Cell& cell, bool by_tile, Losses& losses) {
    const bool several =
        by_tile && two_blocks_an_sm(cell.head_dim, cell.tiles, l2_share(cell), 132);
    const int keys = cell.step_keys > 0 ? cell.step_keys
                     : several && cell.head_dim == 64 ? 32
                                                      : 4096 / cell.head_dim;
    const double rate = cost::block_rate(cell.head_dim, cell.row_warps, cell.readers);
    const double memory_rate =
        are_from_memory(cell) ? cost::memory_rate(cell.head_dim, several ? 2 : 1) : 0.0;
    const Room room{cell.tiles, cell.rows * cell.tiles, cell.readers,
                    static_cast<int>(rounded_up(cell.keys, keys)), keys * cell.head_dim * 4, 132,
                    (several ? kPlacesOfTwo : kPlaces).data(), true, rate, memory_rate};
    const Division d = best_division(room);
    const std::string choice = (by_tile ? several ? "s" : "l" : "") + std::to_string(d.splits) +
                               "," + std::to_string(d.cluster);
    const auto found = cell.us.find(choice);
    const double time =
        found == cell.us.end() ? std::numeric_limits<double>::infinity() : found->second;
    return losses.add(cell, choice.c_str(), time, least(cell.us), cell.at_most);
}

}  // namespace

int main() {
    bool good = true;
    Losses clusters, others;
    for (const auto* cells : {&kEarlierCells, &kCells}) {
        for (const Cell& cell : *cells) {
            good = check(cell, false, clusters) && good;
        }
    }
    for (const Cell& cell : kMemoryCells) {
        good = check(cell, true, clusters) && good;
    }
    for (const OtherCell& cell : kOtherCells) {
        good = check(cell, others) && good;
    }
    for (const OtherTileCell& cell : kOtherTileCells) {
        good = check(cell, others) && good;
    }
    clusters.print("with clusters");
    others.print("without");
    if (!good) {
        return 1;
    }
    std::puts("split_choice checked");
}
