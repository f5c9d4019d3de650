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

// An H200's counts for a block an SM, a GPU that places few large clusters, one without clusters, and twice an
// H200's.
const std::vector<std::vector<int>> kPlaces = {
    {0, 132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7},
    {0, 396, 198, 120, 96, 70, 60, 50, 45, 40, 30, 28, 28, 21, 21, 21, 21},
    {0, 216, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
    {0, 264, 132, 78, 60, 44, 34, 30, 30, 18, 14, 14, 14, 14, 14, 14, 14},
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
    int row_warps = 1;
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
    {16, 1024, 128, {{"4,4", 5.42}, {"8,1", 5.90}, {"5,5", 5.93}, {"6,6", 5.97}, {"3,3", 6.08}}},
    {16, 4096, 128, {{"4,4", 8.48}, {"6,6", 9.61}, {"8,1", 9.64}, {"5,5", 9.71}, {"3,3", 9.95}}},
    {32, 1024, 128, {{"3,3", 7.11}, {"2,2", 7.55}, {"4,1", 8.00}, {"2,1", 8.01}, {"1,1", 8.32}}},
    {32, 2048, 128, {{"3,3", 8.87}, {"4,1", 9.67}, {"2,2", 10.86}, {"2,1", 10.87}}},
    {40, 2048, 128, {{"2,2", 11.04}, {"3,1", 11.22}, {"4,4", 13.53}, {"1,1", 13.79}}},
    {64, 1024, 128, {{"2,2", 7.91}, {"1,1", 8.67}, {"2,1", 9.54}}},
    {4, 4096, 256,
     {{"16,16", 8.39}, {"16,1", 8.51}, {"16,8", 8.55}, {"8,8", 9.16}, {"33,1", 9.26}}},
    {4, 16384, 256,
     {{"16,8", 21.92}, {"16,1", 22.03}, {"33,1", 22.78}, {"16,16", 25.03}, {"8,4", 25.11}}},
    {16, 4096, 256,
     {{"4,4", 20.42}, {"6,6", 20.90}, {"3,3", 21.47}, {"4,1", 21.73}, {"5,5", 21.86}}},
    // Tiles of more rows: 8 and 16 queries of groups of four; 128 queries, not in turns but by
    // results/h200-decode.json as it was at f401fdf8 and at 8b4fc4f4.
    {8, 8192, 128, {{"16,1", 12.75}, {"8,8", 13.52}, {"7,7", 15.08}, {"8,1", 15.67}}, 32, 32, 2},
    {8, 8192, 128, {{"16,1", 17.97}, {"8,8", 20.12}, {"7,7", 23.20}, {"8,1", 23.32}}, 64, 64, 4},
    {32, 8192, 64, {{"3,3", 17.79}, {"4,1", 18.79}}, 32, 64, 2},
};

// K and V from memory (results/tuning/h200-decode-from-memory.json): the same by tile, "l" for Long and "s" for
// Several, which has two blocks an SM.
const std::vector<Cell> kMemoryCells = {
    {12, 40000, 64,
     {{"l5,5", 34.23}, {"l10,1", 34.26}, {"l9,1", 34.33}, {"l11,1", 34.44}, {"l6,1", 34.46},
      {"l7,1", 34.65}, {"l8,1", 34.67}, {"l5,1", 34.76}, {"s8,8", 34.98}, {"l6,6", 35.00}},
     1},
    {12, 65536, 64,
     {{"l10,1", 52.23}, {"s8,8", 52.83}, {"l16,1", 53.23}, {"s8,1", 53.36}, {"l20,1", 53.39},
      {"s20,1", 53.44}, {"l5,1", 53.50}, {"l5,5", 53.62}, {"l7,1", 53.89}, {"l24,1", 54.69}},
     4},
    {20, 20000, 64, {{"l4,4", 29.00}, {"l3,3", 29.23}, {"s6,6", 30.43}}, 1},
    {30, 12000, 64,
     {{"l4,4", 26.14}, {"l3,3", 26.20}, {"s8,8", 26.61}, {"l2,2", 26.74}, {"s7,7", 27.05},
      {"s4,4", 27.30}},
     2},
    {32, 36991, 64,
     {{"l4,1", 75.89}, {"s3,3", 76.04}, {"l6,6", 76.78}, {"s6,6", 76.79}, {"l2,2", 78.60},
      {"s5,5", 78.99}, {"l3,3", 79.04}, {"s7,7", 79.05}},
     8},
    {50, 6000, 64, {{"l2,2", 22.93}, {"s2,2", 23.32}, {"s4,4", 23.54}, {"s3,3", 24.03}}, 4},
    {64, 4000, 64, {{"l1,1", 19.27}, {"l2,2", 19.60}}, 1},
    {132, 10000, 64, {{"l1,1", 77.91}, {"l2,2", 79.09}, {"s2,2", 79.25}, {"s1,1", 79.96}}, 1},
    {140, 6000, 64, {{"l2,2", 54.77}}, 1},
    {152, 8566, 64, {{"l2,2", 84.64}, {"l1,1", 84.81}}, 16},
    {160, 4096, 64, {{"l2,2", 43.51}, {"l1,1", 44.53}}, 1},
    {8, 32768, 128, {{"l8,8", 34.77}, {"l16,1", 35.90}, {"s16,1", 36.31}}, 4},
    {11, 40000, 128,
     {{"l12,1", 55.42}, {"s24,1", 55.61}, {"s12,1", 55.70}, {"l7,1", 55.89}, {"s16,1", 55.97},
      {"s14,1", 56.00}, {"l10,1", 56.09}, {"s10,1", 56.47}, {"l11,1", 56.48}, {"l6,1", 56.60}},
     1},
    {12, 16384, 128,
     {{"s8,8", 28.42}, {"s13,1", 28.84}, {"l11,1", 28.96}, {"s14,1", 28.96}, {"l6,1", 29.02},
      {"s20,1", 29.03}, {"s16,1", 29.04}, {"l5,5", 29.06}, {"s10,1", 29.15}, {"s12,1", 29.16}, {"s11,1", 29.21}},
     1},
    {12, 20000, 128,
     {{"s8,8", 34.53}, {"l9,1", 34.59}, {"l11,1", 34.65}, {"l7,1", 34.70}, {"l10,1", 34.79},
      {"s11,1", 34.82}, {"s12,1", 34.85}, {"s9,1", 34.93}, {"l5,1", 35.01}, {"s16,1", 35.07}},
     8},
    {13, 30000, 128,
     {{"s8,8", 49.70}, {"l6,1", 50.57}, {"s7,7", 50.72}, {"l8,8", 50.73}, {"s16,1", 50.79},
      {"l5,1", 50.82}, {"s12,1", 50.87}, {"l6,6", 50.90}, {"l10,1", 51.04}, {"s11,1", 51.05}},
     1},
    {14, 8192, 128,
     {{"l8,8", 17.45}, {"l7,7", 17.90}, {"s8,8", 17.90}, {"l6,6", 18.01}, {"l5,5", 18.02}},
     1},
    {15, 20000, 128,
     {{"l8,8", 39.77}, {"l4,4", 40.07}, {"l6,6", 40.11}, {"s8,8", 40.23}, {"s6,6", 40.32},
      {"l5,5", 40.40}, {"s7,7", 40.60}, {"l7,7", 40.84}},
     1},
    {16, 16384, 128,
     {{"s5,1", 42.85}, {"l7,7", 42.96}, {"l5,5", 42.97}, {"s4,4", 43.00}, {"s5,5", 43.00},
      {"s7,7", 43.05}, {"l8,8", 43.11}, {"s8,8", 43.16}, {"s6,6", 43.17}, {"l4,4", 43.31}},
     64},
    {16, 30000, 128,
     {{"s8,8", 59.76}, {"l4,4", 59.92}, {"s7,7", 60.22}, {"l5,5", 60.76}, {"s6,6", 61.49},
      {"s5,5", 62.68}},
     4},
    {18, 33572, 128, {{"s14,1", 74.48}, {"s6,6", 77.55}, {"s7,7", 77.61}}, 4},
    {18, 54859, 128,
     {{"l7,1", 122.68}, {"s6,6", 123.13}, {"s7,7", 124.61}, {"l4,4", 126.49}, {"s8,8", 127.69}},
     16},
    {20, 12000, 128,
     {{"s6,6", 32.58}, {"l3,3", 33.43}, {"l4,4", 33.69}, {"s4,4", 34.03}, {"s8,8", 34.14}},
     1},
    {24, 16384, 128, {{"s6,6", 50.18}, {"s4,4", 50.80}, {"s5,5", 52.12}}, 4},
    {26, 6000, 128,
     {{"s8,8", 23.16}, {"l4,4", 23.28}, {"s6,6", 23.32}, {"s7,7", 23.37}, {"l3,3", 23.39},
      {"s4,4", 23.40}, {"s5,5", 23.67}},
     1},
    {28, 16384, 128,
     {{"s4,4", 57.48}, {"s8,8", 58.41}, {"l8,8", 58.50}, {"l4,4", 58.82}, {"l3,3", 59.22},
      {"s7,7", 59.27}, {"s5,5", 59.35}, {"s3,3", 59.69}, {"l7,7", 59.77}, {"s6,6", 60.12}},
     1},
    {30, 9000, 128,
     {{"s8,8", 36.49}, {"s4,4", 36.63}, {"l2,2", 36.72}, {"l4,4", 36.86}, {"l3,3", 37.15},
      {"s6,6", 37.20}, {"s3,3", 37.25}, {"s7,7", 37.32}, {"s5,5", 37.34}},
     4},
    {32, 4096, 128,
     {{"s4,4", 20.05}, {"s7,7", 20.19}, {"s5,5", 20.44}, {"s6,6", 20.48}, {"l2,2", 20.66},
      {"s3,3", 20.89}},
     1},
    {32, 8192, 128, {{"s4,4", 34.60}, {"s5,5", 35.10}, {"s6,6", 35.59}, {"s3,3", 35.62}}, 4},
    {32, 60349, 128,
     {{"l4,1", 223.31}, {"s4,4", 223.50}, {"s5,5", 224.90}, {"s3,3", 229.65}, {"l6,6", 230.15},
      {"s6,6", 232.53}},
     2},
    {40, 8192, 128,
     {{"s4,4", 43.15}, {"s3,3", 43.20}, {"l2,2", 43.52}, {"s2,2", 43.85}, {"l5,5", 44.43},
      {"s5,5", 45.03}},
     1},
    {40, 16384, 128,
     {{"s4,4", 80.04}, {"l5,5", 81.42}, {"s3,3", 81.56}, {"l8,8", 83.18}, {"l2,2", 83.21},
      {"s2,2", 83.65}},
     4},
    {48, 8192, 128, {{"s3,3", 50.47}, {"s2,2", 50.79}, {"s4,4", 51.80}, {"l2,2", 52.50}}, 4},
    {64, 4096, 128, {{"l1,1", 34.58}, {"l2,2", 34.61}, {"s2,2", 35.11}, {"s3,3", 36.03}}, 4},
    {72, 5000, 128, {{"l1,1", 44.78}, {"s2,2", 46.11}}, 1},
    {95, 14225, 128, {{"l2,2", 161.98}, {"s1,1", 162.59}, {"l3,3", 168.68}, {"s3,3", 169.89}}, 2},
    {100, 9000, 128,
     {{"s1,1", 107.70}, {"l2,2", 109.49}, {"l1,1", 111.27}, {"s2,2", 112.02}, {"l3,3", 112.81}},
     1},
    {104, 2048, 128, {{"s1,1", 28.47}, {"l1,1", 29.01}, {"s2,2", 29.43}}, 1},
    {116, 3000, 128, {{"l1,1", 44.49}, {"s1,1", 44.59}, {"s2,2", 44.71}, {"l2,2", 45.98}}, 1},
    {120, 5000, 128, {{"s1,1", 73.36}, {"l1,1", 73.46}, {"s2,2", 73.75}, {"l2,2", 75.42}}, 2},
    {128, 4096, 128, {{"l1,1", 63.36}, {"s1,1", 63.58}, {"s2,2", 63.86}, {"l2,2", 65.07}}, 4},
    {144, 9000, 128, {{"l2,2", 153.43}, {"s1,1", 158.34}}, 1},
    {160, 3000, 128, {{"s1,1", 60.23}, {"l2,2", 62.57}}, 8},
    {160, 9000, 128, {{"s5,1", 169.63}, {"l2,2", 170.85}, {"s1,1", 176.29}}, 1},
    {160, 16384, 128, {{"s1,1", 308.70}, {"l1,1", 319.97}, {"s2,2", 320.35}}, 8},
    {10, 65536, 256,
     {{"l7,7", 154.04}, {"l8,8", 154.18}, {"l6,6", 154.62}, {"l12,1", 155.75}, {"s12,1", 156.08},
      {"s24,1", 157.04}, {"l6,1", 158.87}, {"s10,1", 160.56}, {"s20,1", 161.09}, {"l24,1", 161.11}},
     1},
    {22, 10000, 256,
     {{"l6,1", 58.78}, {"s5,5", 58.87}, {"l3,3", 59.42}, {"s4,4", 59.50}, {"l4,4", 59.70},
      {"l5,5", 60.10}, {"s7,7", 60.17}, {"s8,8", 60.40}, {"s6,6", 60.63}},
     8},
    {24, 8000, 256,
     {{"s6,6", 50.35}, {"s4,4", 51.62}, {"s5,5", 51.74}, {"l3,3", 51.92}, {"s7,7", 52.79}},
     8},
    {34, 32768, 256, {{"l2,2", 257.81}, {"l6,6", 267.23}}, 4},
    {42, 14012, 256, {{"l2,2", 140.45}, {"s3,3", 144.02}, {"l7,7", 145.62}}, 8},
    {44, 29656, 256, {{"l3,1", 301.01}, {"l2,2", 307.22}}, 2},
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

// K and V in the size of an H200's L2.
template <typename AnyCell>
double l2_share(const AnyCell& cell) {
    return static_cast<double>(cell.tiles * cell.keys * cell.head_dim * 4) / (60 << 20);
}

template <typename AnyCell>
bool are_from_memory(const AnyCell& cell) {
    return l2_share(cell) > kStaysInL2;
}

bool check(const OtherCell& cell) {
    std::vector<int> places(17);
    places[1] = 132 * (cell.head_dim == 256 ? 2 : cell.head_dim == 128 ? 3 : 4);
    const Division d = best_division({cell.tiles, cell.rows * cell.tiles, static_cast<int>(cell.keys / 16),
                                      cell.head_dim * 64, 132, places.data(), true,
                                      cost::other_block_rate(cell.head_dim),
                                      are_from_memory(cell) ? cost::kOtherRateFromMemory : 0.0});
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
bool check(const Cell& cell, bool by_tile) {
    const bool several =
        by_tile && two_blocks_an_sm(cell.head_dim, cell.tiles, l2_share(cell), 132);
    const int keys = cell.step_keys > 0 ? cell.step_keys
                     : several && cell.head_dim == 64 ? 32
                                                      : 4096 / cell.head_dim;
    const double rate = cost::block_rate(cell.head_dim, cell.row_warps);
    const double memory_rate =
        are_from_memory(cell) ? cost::memory_rate(cell.head_dim, several ? 2 : 1) : 0.0;
    const Room room{cell.tiles, cell.rows * cell.tiles,
                    static_cast<int>((cell.keys + keys - 1) / keys), keys * cell.head_dim * 4, 132,
                    kPlaces[several ? 3 : 0].data(), true, rate, memory_rate};
    const Division d = best_division(room);
    const std::string choice = (by_tile ? several ? "s" : "l" : "") + std::to_string(d.splits) +
                               "," + std::to_string(d.cluster);
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

// A division is valid, and its parts add up.
void check_division(const Room& room, std::normal_distribution<float>& normal,
                    std::mt19937& random) {
    const Division d = best_division(room);
    expect(d.splits >= 1 && d.splits <= room.steps, "splits without keys", room, d);
    expect(d.splits % d.cluster == 0, "a cluster is cut", room, d);
    expect(room.at_once[d.cluster] > 0, "no such cluster", room, d);
    expect(room.scratch || d.clusters() == 1, "a merge without memory", room, d);
    expect(d.first_step(0) == 0 && d.first_step(d.splits) == room.steps, "keys are left out", room,
           d);
    for (int split = 0; split < d.splits; ++split) {
        const int own = d.first_step(split + 1) - d.first_step(split);
        expect(own == room.steps / d.splits || own == room.steps / d.splits + 1, "uneven shares",
               room, d);
    }
    expect(room.tiles <= room.at_once[1] || d.splits <= 2, "much divided work", room, d);
    if (room.steps > 5000) {
        return;
    }
    std::vector<float> scores(static_cast<size_t>(room.steps)), values(scores.size());
    std::generate(scores.begin(), scores.end(), [&] { return 9 * normal(random); });
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    const double difference =
        merged(scores, values, d) - merged(scores, values, divide(room.steps, 1, 1));
    expect(std::fabs(difference) < 1e-4, "the parts do not add up", room, d);
}

}  // namespace

int main() {
    bool good = true;
    for (const Cell& cell : kCells) {
        good = check(cell, false) && good;
    }
    for (const Cell& cell : kMemoryCells) {
        good = check(cell, true) && good;
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
                    for (const double memory_rate : {0.0, 40.0, 45.0, 75.0}) {
                        const Room room{tiles, tiles, steps, 16384, 132, places.data(), scratch,
                                        135, memory_rate};
                        check_division(room, normal, random);
                    }
                }
            }
        }
    }
    std::puts("split checked");
}
