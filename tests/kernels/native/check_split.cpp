// Divides keys as the CUDA kernels for few queries do, and merges parts of a softmax as they do, and
// compares the choice with what was measured on an H200 (docs/lab/cuda-kernels.md, "How to divide"):
// exits with 1 and a line about the first problem whose division is wrong, or takes more than 5 % longer
// than the best. Also checks which K and V L2 drops first.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../../../csrc/cuda/decode/l2.h"
#include "../../../csrc/cuda/decode/split.h"

using namespace flashbench::cuda::decode;

namespace {

// An H200's counts for a block an SM, a GPU that places few large clusters, one without clusters.
const std::vector<std::vector<int>> kPlaces = {
    {0, 132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7},
    {0, 396, 198, 120, 96, 70, 60, 50, 45, 40, 30, 28, 28, 21, 21, 21, 21},
    {0, 216, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
};

void expect(bool holds, const char* what, const Room& room, const Division& division) {
    if (!holds) {
        std::printf("%s: tiles %lld, steps %d, scratch %d: splits %d, cluster %d\n", what,
                    static_cast<long long>(room.tiles), room.steps, room.scratch, division.splits,
                    division.cluster);
        std::exit(1);
    }
}

// Softmax-weighted mean of one value a step, by parts with bases of their own.
double merged(const std::vector<float>& scores, const std::vector<float>& values,
              const Division& division) {
    std::vector<float> bases, sums, outs;
    for (int split = 0; split < division.splits; ++split) {
        float base = -3.4e38f, sum = 0, out = 0;
        for (int i = division.first_step(split); i < division.first_step(split + 1); ++i) {
            const float larger = std::max(base, scores[i]);
            sum = sum * std::exp2(base - larger) + std::exp2(scores[i] - larger);
            out = out * std::exp2(base - larger) + std::exp2(scores[i] - larger) * values[i];
            base = larger;
        }
        bases.push_back(base), sums.push_back(sum), outs.push_back(out);
    }
    const float base = *std::max_element(bases.begin(), bases.end());
    double sum = 0, out = 0;
    for (int split = 0; split < division.splits; ++split) {
        sum += sums[split] * std::exp2(bases[split] - base);
        out += outs[split] * std::exp2(bases[split] - base);
    }
    return out / sum;
}

// K and V of so many heads and keys, contiguous.
flashbench::Attention keys_of(int64_t batch, int64_t kv_heads, int64_t k_len, int64_t head_dim) {
    flashbench::Attention problem{};
    problem.batch = batch;
    problem.kv_heads = kv_heads;
    problem.k_len = k_len;
    problem.head_dim = head_dim;
    problem.k_strides = {kv_heads * k_len * head_dim, k_len * head_dim, head_dim, 1};
    problem.v_strides = problem.k_strides;
    return problem;
}

void expect_evicted_first(bool expected, const char* what, const flashbench::Attention& problem,
                          int64_t tiles = 1) {
    for (const int64_t l2_bytes : {int64_t{50} << 20, int64_t{60} << 20}) {  // an H100's, an H200's
        if (are_evicted_first(problem, tiles, l2_bytes) != expected) {
            std::printf("evicted first, of %lld bytes of L2: %s\n",
                        static_cast<long long>(l2_bytes), what);
            std::exit(1);
        }
    }
}

void check_evicted_first() {
    expect_evicted_first(false, "17 MB, which stay in L2", keys_of(1, 8, 4096, 128));
    expect_evicted_first(true, "67 MB", keys_of(1, 32, 4096, 128));
    expect_evicted_first(true, "268 MB", keys_of(256, 1, 1024, 256));
    expect_evicted_first(false, "537 MB", keys_of(64, 8, 2048, 128));
    expect_evicted_first(false, "two tiles of rows", keys_of(1, 32, 4096, 128), 2);
    auto expanded = keys_of(16, 8, 4096, 128);
    expanded.v_strides.batch = 0;
    expect_evicted_first(false, "V of one problem for a batch", expanded);
    expanded = keys_of(16, 8, 4096, 128);
    expanded.k_strides.head = 0;
    expect_evicted_first(false, "K of one head for all", expanded);
    auto single = keys_of(1, 32, 4096, 128);
    single.k_strides.batch = 0;
    expect_evicted_first(true, "the stride of a batch of one", single);
}

// Microseconds by "splits,cluster": bf16, graph replays, in turns.
struct Cell {
    int64_t tiles, keys;
    int head_dim;
    std::map<std::string, double> us;
    int64_t rows = 16;      // of a tile; fewer where one query has a smaller group
    int step_keys = 0;      // 0: Long's
    double block_rate = 0;  // 0: Long's
};

const std::vector<Cell> kCells = {
    {8, 4096, 64, {{"8,8", 5.41}, {"6,6", 6.14}, {"7,7", 6.24}, {"4,4", 6.27}, {"5,5", 6.30}}},
    {8, 32768, 64,
     {{"8,8", 19.66}, {"7,7", 20.35}, {"6,6", 20.37}, {"16,1", 20.75}, {"8,1", 20.95}}},
    {32, 4096, 64, {{"3,3", 8.51}, {"4,1", 9.54}, {"2,2", 10.43}, {"2,1", 10.94}}},
    {1, 8192, 128,
     {{"64,8", 6.62}, {"64,1", 7.08}, {"32,4", 7.24}, {"32,8", 7.52}, {"132,1", 8.16}}},
    {1, 32768, 128,
     {{"64,8", 8.75}, {"64,1", 9.26}, {"32,4", 10.29}, {"32,8", 10.55}, {"132,1", 10.98}}},
    {1, 131072, 128,
     {{"64,8", 22.27}, {"64,1", 23.05}, {"132,1", 24.87}, {"32,4", 24.99}, {"32,8", 27.09}}},
    {2, 8192, 128,
     {{"32,1", 7.00}, {"32,4", 7.06}, {"32,8", 7.09}, {"66,1", 7.10}, {"16,4", 7.79}}},
    {2, 32768, 128, {{"32,4", 10.10}, {"32,8", 10.16}, {"66,1", 10.90}, {"32,1", 10.94}}},
    {4, 2048, 128,
     {{"16,16", 5.21}, {"8,8", 5.53}, {"16,1", 5.64}, {"33,1", 5.94}, {"16,8", 6.04}}},
    {4, 8192, 128,
     {{"16,1", 7.95}, {"16,16", 7.99}, {"16,8", 8.18}, {"8,8", 8.59}, {"33,1", 8.70}}},
    {4, 32768, 128,
     {{"16,1", 21.50}, {"16,8", 21.61}, {"33,1", 22.15}, {"8,4", 24.20}, {"16,16", 24.56}}},
    {8, 1024, 128, {{"8,8", 4.42}, {"4,4", 4.98}, {"5,5", 4.99}, {"7,7", 5.06}, {"6,6", 5.06}}},
    {8, 4096, 128, {{"8,8", 6.64}, {"6,6", 7.34}, {"7,7", 7.34}, {"8,1", 7.81}, {"5,5", 7.95}}},
    {8, 16384, 128,
     {{"8,8", 20.01}, {"6,6", 20.70}, {"7,7", 20.73}, {"8,1", 21.19}, {"8,4", 21.47}}},
    {8, 32768, 128,
     {{"8,8", 34.57}, {"7,7", 35.68}, {"6,6", 35.95}, {"16,1", 36.00}, {"8,4", 36.02}}},
    {8, 131072, 128,
     {{"8,8", 123.84}, {"7,7", 124.08}, {"16,1", 124.22}, {"8,4", 125.47}, {"6,6", 125.82}}},
    {12, 4096, 128, {{"8,8", 7.67}, {"6,6", 7.88}, {"7,7", 8.05}, {"4,4", 8.38}, {"5,5", 8.42}}},
    {12, 16384, 128,
     {{"4,4", 28.56}, {"11,1", 28.63}, {"5,5", 28.86}, {"8,8", 29.18}, {"5,1", 29.25}}},
    {16, 1024, 128, {{"4,4", 5.42}, {"8,1", 5.90}, {"5,5", 5.93}, {"6,6", 5.97}, {"3,3", 6.08}}},
    {16, 4096, 128, {{"4,4", 8.48}, {"6,6", 9.61}, {"8,1", 9.64}, {"5,5", 9.71}, {"3,3", 9.95}}},
    {16, 16384, 128,
     {{"4,4", 34.51}, {"6,6", 35.21}, {"8,1", 36.05}, {"3,3", 36.12}, {"4,1", 36.14}}},
    {32, 1024, 128, {{"3,3", 7.11}, {"2,2", 7.55}, {"4,1", 8.00}, {"2,1", 8.01}, {"1,1", 8.32}}},
    {32, 2048, 128, {{"3,3", 8.87}, {"4,1", 9.67}, {"2,2", 10.86}, {"2,1", 10.87}}},
    {32, 4096, 128,
     {{"2,2", 20.11}, {"4,1", 20.73}, {"2,1", 20.80}, {"3,3", 21.01}, {"4,4", 22.63}}},
    {32, 8192, 128,
     {{"2,2", 35.78}, {"4,1", 36.06}, {"2,1", 36.41}, {"3,3", 37.72}, {"4,4", 38.72}}},
    {40, 2048, 128, {{"2,2", 11.04}, {"3,1", 11.22}, {"4,4", 13.53}, {"1,1", 13.79}}},
    {40, 8192, 128,
     {{"2,2", 43.65}, {"3,1", 44.00}, {"1,1", 45.66}, {"3,3", 47.73}, {"4,4", 48.49}}},
    {64, 1024, 128, {{"2,2", 7.91}, {"1,1", 8.67}, {"2,1", 9.54}}},
    {64, 4096, 128, {{"2,2", 34.34}, {"1,1", 34.37}, {"2,1", 36.19}}},
    {4, 4096, 256,
     {{"16,16", 8.39}, {"16,1", 8.51}, {"16,8", 8.55}, {"8,8", 9.16}, {"33,1", 9.26}}},
    {4, 16384, 256,
     {{"16,8", 21.92}, {"16,1", 22.03}, {"33,1", 22.78}, {"16,16", 25.03}, {"8,4", 25.11}}},
    {16, 4096, 256,
     {{"4,4", 20.42}, {"6,6", 20.90}, {"3,3", 21.47}, {"4,1", 21.73}, {"5,5", 21.86}}},
    // Tiles of more rows: 8 and 16 queries of groups of four; 128 queries, not in turns but by
    // results/h200-decode.json as it was at f401fdf8 and at 8b4fc4f4.
    {8, 8192, 128, {{"16,1", 12.75}, {"8,8", 13.52}, {"7,7", 15.08}, {"8,1", 15.67}}, 32, 32, 60},
    {8, 8192, 128, {{"16,1", 17.97}, {"8,8", 20.12}, {"7,7", 23.20}, {"8,1", 23.32}}, 64, 64, 35},
    {32, 8192, 64, {{"3,3", 17.79}, {"4,1", 18.79}}, 32, 64, 60},
};

// The tile that forms no clusters, on an H200 by a build for sm_80 alone
// (results/tuning/h200-sm80-decode-parts.json): microseconds by parts of the keys.
struct OtherCell {
    int64_t tiles, rows, keys;
    int head_dim;
    std::map<int, double> us;
};
const std::vector<OtherCell> kOtherCells = {
    {1, 8, 4096, 256,
     {{1, 67.42}, {2, 38.22}, {3, 27.87}, {4, 22.34}, {8, 14.65},
      {16, 10.84}, {32, 9.24}, {64, 8.93}, {128, 10.60}}},
    {2, 16, 4096, 256,
     {{1, 69.17}, {2, 39.65}, {3, 29.68}, {4, 24.08}, {8, 16.37},
      {16, 12.84}, {32, 10.98}, {64, 10.82}, {128, 13.50}}},
    {4, 16, 4096, 256,
     {{1, 69.12}, {2, 40.04}, {3, 30.22}, {4, 24.41},
      {8, 16.75}, {16, 13.09}, {32, 11.79}, {64, 12.84}}},
    {32, 8, 1024, 256, {{1, 21.71}, {2, 16.10}, {3, 14.78}, {4, 12.95}, {8, 12.67}}},
    {4, 4, 16384, 256,
     {{1, 337.24}, {2, 175.42}, {3, 120.93}, {4, 93.98},
      {8, 51.22}, {16, 32.01}, {32, 25.55}, {64, 25.50}}},
    {16, 4, 2048, 256, {{1, 40.41}, {2, 23.58}, {3, 18.35}, {4, 15.50}, {8, 12.00}, {16, 11.72}}},
    {32, 4, 8192, 256, {{1, 177.90}, {2, 100.50}, {3, 78.95}, {4, 70.17}, {8, 69.00}}},
    {16, 1, 4096, 256, {{1, 90.79}, {2, 50.39}, {3, 37.59}, {4, 31.13}, {8, 23.90}, {16, 23.11}}},
    {2, 4, 512, 256,
     {{1, 11.75}, {2, 9.36}, {3, 8.22}, {4, 7.27}, {8, 6.20}, {16, 6.22}, {32, 6.84}}},
    {1, 1, 2048, 256,
     {{1, 34.84}, {2, 21.01}, {3, 15.95}, {4, 13.05}, {8, 9.25},
      {16, 7.41}, {32, 6.64}, {64, 7.31}, {128, 8.58}}},
    {1, 16, 4096, 256,
     {{1, 67.37}, {2, 38.59}, {3, 28.72}, {4, 23.00}, {8, 15.21},
      {16, 11.77}, {32, 10.06}, {64, 9.96}, {128, 11.72}}},
    {1, 8, 4096, 128,
     {{1, 37.16}, {2, 22.15}, {3, 16.80}, {4, 13.71}, {8, 9.42},
      {16, 7.39}, {32, 6.61}, {64, 6.55}, {128, 7.48}}},
    {1, 4, 16384, 128,
     {{1, 138.79}, {2, 72.92}, {3, 50.50}, {4, 38.83}, {8, 21.88},
      {16, 13.56}, {32, 9.57}, {64, 7.95}, {128, 8.50}}},
    {1, 16, 4096, 64,
     {{1, 30.78}, {2, 19.00}, {3, 14.75}, {4, 12.11}, {8, 8.62},
      {16, 6.89}, {32, 6.07}, {64, 6.00}, {128, 6.47}}},
    {1, 16, 2048, 128,
     {{1, 20.86}, {2, 14.46}, {3, 11.79}, {4, 10.20}, {8, 8.11},
      {16, 7.11}, {32, 6.87}, {64, 7.22}, {128, 8.05}}},
};

// Whether K and V do not stay in an H200's L2.
template <typename AnyCell>
bool are_from_memory(const AnyCell& cell) {
    return cell.tiles * cell.keys * cell.head_dim * 4 > (60 << 20) / 8 * 7;
}

bool check(const OtherCell& cell) {
    std::vector<int> places(17);
    places[1] = 132 * (cell.head_dim == 256 ? 2 : cell.head_dim == 128 ? 3 : 4);
    const Division d = best_division({cell.tiles, cell.rows * cell.tiles, static_cast<int>(cell.keys / 16),
                                      cell.head_dim * 64, 132, places.data(), true,
                                      cost::other_block_rate(cell.head_dim), are_from_memory(cell)});
    double best = cell.us.begin()->second;
    auto nearest = cell.us.begin();
    for (auto i = cell.us.begin(); i != cell.us.end(); ++i) {
        best = std::min(best, i->second);
        if (std::abs(std::log(i->first * 1.0 / d.splits)) <
            std::abs(std::log(nearest->first * 1.0 / d.splits))) {
            nearest = i;
        }
    }
    if (nearest->second <= 1.05 * best) {
        return true;
    }
    std::printf("%lld tiles, %lld keys, head dim %d without clusters: %d parts (%.2f), best %.2f\n",
                static_cast<long long>(cell.tiles), static_cast<long long>(cell.keys),
                cell.head_dim, d.splits, nearest->second, best);
    return false;
}

// As forward_few_rows and forward_head_dim ask. Long takes steps of 32 keys at head dim 128, of 64 or 16 at
// the others.
bool check(const Cell& cell) {
    const int keys = cell.step_keys > 0 ? cell.step_keys : 4096 / cell.head_dim;
    const double rate = cell.block_rate > 0 ? cell.block_rate : cell.head_dim < 128 ? 95.0 : 135.0;
    const Room room{cell.tiles, cell.rows * cell.tiles,
                    static_cast<int>((cell.keys + keys - 1) / keys), keys * cell.head_dim * 4, 132,
                    kPlaces[0].data(), true, rate, are_from_memory(cell)};
    const Division d = best_division(room);
    const std::string choice = std::to_string(d.splits) + "," + std::to_string(d.cluster);
    double best = cell.us.begin()->second;
    for (const auto& [name, time] : cell.us) {
        best = std::min(best, time);
    }
    const auto found = cell.us.find(choice);
    if (found != cell.us.end() && found->second <= 1.05 * best) {
        return true;
    }
    std::printf("%lld tiles, %lld keys, head dim %d: chosen %s (%.2f), best %.2f\n",
                static_cast<long long>(cell.tiles), static_cast<long long>(cell.keys),
                cell.head_dim, choice.c_str(), found == cell.us.end() ? 0.0 : found->second, best);
    return false;
}

}  // namespace

int main() {
    bool good = true;
    for (const Cell& cell : kCells) {
        good = check(cell) && good;
    }
    for (const OtherCell& cell : kOtherCells) {
        good = check(cell) && good;
    }
    if (!good) {
        return 1;
    }
    check_evicted_first();
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (const auto& places : kPlaces) {
        for (const int64_t tiles : {1, 2, 3, 7, 8, 15, 16, 64, 132, 133, 400, 2048, 100000}) {
            for (const int steps : {1, 2, 3, 5, 16, 33, 128, 1000, 4096, 100001}) {
                for (const bool scratch : {false, true}) {
                    const Room room{tiles, tiles, steps, 16384, 132, places.data(), scratch,
                                    135, false};
                    const Division d = best_division(room);
                    expect(d.splits >= 1 && d.splits <= steps, "splits without keys", room, d);
                    expect(d.splits % d.cluster == 0, "a cluster is cut", room, d);
                    expect(places[static_cast<size_t>(d.cluster)] > 0, "no such cluster", room, d);
                    expect(scratch || d.clusters() == 1, "a merge without memory", room, d);
                    expect(d.first_step(0) == 0 && d.first_step(d.splits) == steps,
                           "keys are left out", room, d);
                    for (int split = 0; split < d.splits; ++split) {
                        const int own = d.first_step(split + 1) - d.first_step(split);
                        expect(own == steps / d.splits || own == steps / d.splits + 1,
                               "uneven shares", room, d);
                    }
                    expect(tiles <= places[1] || d.splits <= 2, "much divided work", room, d);
                    if (steps > 5000) {
                        continue;
                    }
                    std::vector<float> scores(static_cast<size_t>(steps)), values(scores.size());
                    std::generate(scores.begin(), scores.end(), [&] { return 9 * normal(random); });
                    std::generate(values.begin(), values.end(), [&] { return normal(random); });
                    const double difference =
                        merged(scores, values, d) - merged(scores, values, divide(steps, 1, 1));
                    expect(std::fabs(difference) < 1e-4, "the parts do not add up", room, d);
                }
            }
        }
    }
    std::puts("split checked");
}
