// Compares the choice of kernels and tiles with what was measured on an H200 (132 SMs, bf16, graph
// replays, microseconds; docs/lab/cuda-kernels.md, "Short sequences again" and "Packed rows"): exits
// with 1 and a line about each cell where the chosen one takes more than 5 % longer than the best.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "../../../csrc/cuda/families.h"
#include "../../../csrc/cuda/sm90/cost.h"
#include "../../../csrc/cuda/sm90/short_shapes.h"

using namespace flashbench;
using namespace flashbench::cuda;

namespace {

constexpr int kSms = 132;

struct Cell {
    int64_t batch, heads, q_len, k_len;
    bool causal;
    // By kernel: "keys/few keys" of the short one, "cluster" if that divides the keys, the rows of the
    // main one, the names of others.
    std::map<std::string, double> us;
};

const std::vector<Cell> kCells = {
    {16, 16, 577, 577, false, {{"128/128", 66.50}, {"128/80", 64.04}, {"128", 72.35}}},
    {16, 16, 577, 577, true, {{"128/128", 50.15}, {"128/64", 47.86}, {"128", 53.39}}},
    {8, 12, 1024, 1024, false, {{"128/128", 61.96}, {"192", 65.81}, {"128", 63.18}}},
    {8, 12, 1024, 1024, true, {{"128/128", 39.39}, {"128/64", 39.02}, {"192", 44.47}, {"128", 43.77}}},
    {32, 16, 197, 197, false, {{"112/112", 26.77}, {"128/80", 26.89}}},
    {32, 16, 197, 197, true, {{"128/128", 26.57}, {"128/64", 25.88}}},
    {8, 12, 197, 197, false, {{"112/112", 7.50}, {"128/80", 7.41}}},
    {8, 12, 197, 197, true, {{"128/128", 7.29}, {"128/64", 7.45}}},
    {16, 12, 384, 384, false, {{"192", 20.85}, {"128", 26.03}}},
    {16, 12, 384, 384, true, {{"128/128", 19.81}, {"128/64", 19.72}, {"192", 21.26}}},
    {32, 12, 128, 128, true, {{"64/64", 9.96}, {"128/64", 9.94}}},
    {8, 16, 512, 512, true, {{"128/128", 18.88}, {"128/64", 18.92}}},
    {16, 16, 256, 256, true, {{"128/128", 14.51}, {"128/64", 14.10}}},
    {8, 12, 768, 768, false, {{"192", 32.68}}},
    {8, 12, 768, 768, true, {{"128/128", 26.70}, {"128/64", 26.03}}},
    {16, 16, 1024, 1024, true, {{"128/128", 105.71}, {"128/64", 103.39}, {"128", 108.46}}},
    {2, 16, 1536, 1536, true, {{"192", 28.48}, {"128", 31.34}}},
    {1, 20, 1500, 1500, false, {{"192", 34.41}, {"128", 32.48}}},
    {1, 20, 1500, 1500, true, {{"192", 22.24}, {"128", 20.22}}},
    {2, 10, 4096, 4096, false, {{"192", 157.81}, {"128", 180.08}}},
    {2, 10, 4096, 4096, true, {{"192", 90.51}, {"128", 103.14}}},
    {1, 16, 4096, 4096, true, {{"192", 78.40}}},
    {2, 10, 4096, 77, false, {{"112/112", 12.17}, {"80/80", 11.42}, {"80/64", 11.87}}},
    {2, 10, 4096, 77, true, {{"64/64", 14.16}, {"80/80", 11.66}, {"80/64", 12.07}}},
    {1, 8, 128, 8192, false, {{"main", 16.53}, {"decode", 17.81}, {"packed", 15.32}}},
    {16, 16, 1, 1, false, {{"simt", 1.89}, {"64/64", 3.61}}},
    {1, 8, 16, 4, false, {{"simt", 2.09}, {"split", 2.89}}},
    {16, 16, 16, 4, false, {{"simt", 2.77}, {"64/64", 3.71}}},
    {16, 16, 64, 4, false, {{"simt", 4.70}, {"64/64", 4.07}}},
    {16, 16, 1, 8, false, {{"simt", 2.70}, {"64/64", 3.64}}},
    {16, 16, 1, 32, false, {{"simt", 2.95}, {"64/64", 3.68}}},
    {16, 16, 4, 16, false, {{"simt", 5.55}, {"64/64", 3.63}}},
    {1, 8, 64, 16, false, {{"simt", 3.60}, {"split", 3.10}}},
    {8, 12, 16, 16, true, {{"simt", 6.76}, {"split", 3.21}}},
};

// Chunks of queries, aligned at the bottom right if causal, by family.
struct Chunk {
    int64_t batch, heads, kv_heads, q_len, k_len, head_dim;
    bool causal;
    std::map<std::string, double> us;
};

const std::vector<Chunk> kChunks = {
    {1, 32, 8, 64, 32768, 128, true, {{"packed", 61.76}, {"decode", 144.01}, {"short", 126.49}}},
    {1, 32, 8, 64, 16384, 128, true, {{"packed", 35.47}, {"decode", 81.28}, {"short", 66.60}}},
    {1, 32, 8, 64, 8192, 128, true, {{"packed", 23.68}, {"decode", 49.33}, {"short", 36.57}}},
    {1, 32, 8, 64, 6000, 128, true, {{"packed", 20.18}, {"short", 27.43}}},
    {1, 32, 8, 64, 4096, 128, true, {{"packed", 17.05}, {"decode", 30.12}, {"short", 20.26}}},
    {1, 32, 8, 64, 3000, 128, true, {{"packed", 16.50}, {"short", 16.49}}},
    {1, 32, 8, 64, 2048, 128, true, {{"packed", 14.23}, {"short", 12.77}}},
    {1, 32, 8, 64, 1024, 128, true, {{"packed", 12.67}, {"short", 9.12}}},
    {1, 32, 8, 20, 4096, 128, true, {{"packed", 16.43}, {"decode", 19.34}, {"short", 20.04}}},
    {1, 32, 8, 16, 4096, 128, true, {{"packed", 14.91}, {"decode", 15.05}}},
    {1, 32, 8, 16, 8192, 128, true, {{"packed", 17.78}, {"decode", 20.53}}},
    {1, 32, 8, 16, 32768, 128, true, {{"packed", 44.23}, {"decode", 47.73}}},
    {1, 32, 8, 8, 32768, 128, true, {{"packed", 44.17}, {"decode", 44.33}}},
    {1, 32, 8, 8, 131072, 128, true, {{"packed", 133.63}, {"decode", 129.93}}},
    {1, 32, 8, 32, 2048, 128, true, {{"packed", 14.79}, {"decode", 15.58}, {"short", 12.87}}},
    {1, 32, 8, 32, 4096, 128, true, {{"packed", 16.27}, {"decode", 20.39}, {"short", 20.38}}},
    {1, 32, 8, 32, 8192, 128, true, {{"packed", 20.15}, {"decode", 31.41}, {"short", 36.51}}},
    {1, 32, 8, 128, 2048, 128, true, {{"packed", 18.71}, {"short", 13.56}}},
    {1, 32, 8, 128, 4096, 128, true, {{"packed", 24.87}, {"short", 21.19}}},
    {1, 32, 8, 128, 8192, 128, true, {{"packed", 36.44}, {"short", 37.09}}},
    {1, 32, 8, 192, 8192, 128, true, {{"packed", 50.34}, {"short", 66.83}}},
    {1, 32, 8, 256, 2048, 128, true, {{"packed", 27.79}, {"short", 21.56}}},
    {1, 32, 8, 256, 4096, 128, true, {{"packed", 39.09}, {"short", 36.46}}},
    {1, 32, 8, 256, 8192, 128, true, {{"packed", 63.25}, {"short", 67.13}}},
    {1, 32, 8, 256, 32768, 128, true, {{"packed", 217.93}, {"short", 272.83}}},
    {1, 32, 8, 300, 4096, 128, true, {{"packed", 49.18}, {"short", 85.31}, {"main", 50.66}}},
    {1, 32, 8, 300, 8192, 128, true, {{"packed", 79.97}, {"short", 166.00}, {"main", 91.59}}},
    {1, 32, 8, 400, 8192, 128, true, {{"packed", 101.07}, {"short", 169.48}, {"main", 93.76}}},
    {4, 32, 8, 64, 2048, 128, true, {{"packed", 28.32}, {"short", 22.97}}},
    {4, 32, 8, 64, 8192, 128, true, {{"packed", 69.04}, {"short", 74.38}, {"main", 81.01}}},
    {2, 32, 8, 64, 8192, 128, true, {{"packed", 39.42}, {"short", 39.85}}},
    {2, 32, 8, 128, 4096, 128, true, {{"packed", 40.33}, {"short", 38.12}}},
    {3, 32, 8, 128, 8192, 128, true, {{"packed", 97.02}, {"short", 166.55}, {"main", 91.15}}},
    {1, 28, 4, 64, 4096, 128, true, {{"packed", 17.55}, {"short", 20.71}}},
    {1, 28, 4, 128, 8192, 128, true, {{"packed", 35.64}, {"short", 36.06}}},
    {1, 28, 4, 300, 8192, 128, true, {{"packed", 68.45}, {"short", 162.15}, {"main", 90.44}}},
    {1, 64, 8, 64, 4096, 128, true, {{"packed", 24.44}, {"short", 21.09}}},
    {1, 64, 8, 64, 16384, 128, true, {{"packed", 60.07}, {"short", 69.83}}},
    {1, 16, 1, 64, 2048, 128, true, {{"packed", 15.41}, {"short", 13.84}}},
    {1, 16, 1, 64, 8192, 128, true, {{"packed", 19.93}, {"decode", 31.56}, {"short", 37.89}}},
    {1, 16, 2, 128, 4096, 128, true, {{"packed", 17.14}, {"short", 20.87}}},
    {1, 8, 8, 64, 2048, 128, true, {{"packed", 13.54}, {"decode", 10.95}, {"short", 13.18}}},
    {1, 8, 8, 64, 4096, 128, true, {{"packed", 14.90}, {"decode", 14.85}, {"short", 20.89}}},
    {1, 8, 8, 64, 8192, 128, true, {{"packed", 17.77}, {"decode", 20.39}, {"short", 36.62}}},
    {1, 8, 8, 64, 16384, 128, true, {{"packed", 28.69}, {"decode", 31.47}, {"short", 67.81}}},
    {1, 8, 8, 64, 65536, 128, true, {{"packed", 73.90}, {"decode", 79.55}, {"short", 249.93}}},
    {1, 16, 16, 64, 4096, 128, true, {{"packed", 15.74}, {"decode", 20.23}, {"short", 20.75}}},
    {1, 16, 16, 64, 16384, 128, true, {{"packed", 42.37}, {"decode", 48.84}, {"short", 67.31}}},
    {1, 32, 32, 64, 8192, 128, true, {{"packed", 42.08}, {"short", 38.20}}},
    {1, 32, 32, 64, 16384, 128, true, {{"packed", 71.69}, {"short", 68.66}}},
    {1, 32, 32, 128, 8192, 128, true, {{"packed", 46.88}, {"short", 47.66}}},
    {1, 8, 8, 256, 4096, 128, true, {{"packed", 18.76}, {"short", 21.81}}},
    {1, 8, 8, 256, 16384, 128, true, {{"packed", 36.17}, {"short", 67.16}}},
    {1, 8, 8, 512, 8192, 128, true, {{"packed", 36.92}, {"short", 36.84}}},
    {1, 8, 8, 1024, 8192, 128, true, {{"packed", 64.46}, {"short", 67.04}, {"main", 90.30}}},
    {1, 16, 16, 512, 8192, 128, true, {{"packed", 64.56}, {"short", 69.10}, {"main", 90.93}}},
    {1, 4, 4, 1024, 16384, 128, true, {{"packed", 61.80}, {"short", 67.47}, {"main", 173.77}}},
    {1, 2, 2, 1000, 8192, 128, true, {{"packed", 25.28}, {"short", 35.84}, {"main", 90.34}}},
    {1, 8, 8, 128, 4096, 64, true, {{"packed", 13.54}, {"decode", 13.03}, {"short", 16.63}}},
    {1, 8, 8, 128, 8192, 64, true, {{"packed", 15.97}, {"decode", 19.97}, {"short", 29.03}}},
    {1, 8, 8, 64, 16384, 64, true, {{"packed", 18.23}, {"decode", 20.02}, {"short", 54.54}}},
    {1, 32, 8, 16, 8192, 64, true, {{"packed", 14.52}, {"decode", 13.34}}},
    {1, 32, 8, 64, 2048, 64, true, {{"packed", 11.76}, {"short", 10.26}}},
    {1, 32, 8, 64, 4096, 64, true, {{"packed", 14.05}, {"decode", 16.46}, {"short", 16.07}}},
    {1, 32, 8, 64, 8192, 64, true, {{"packed", 18.76}, {"decode", 26.77}, {"short", 28.49}}},
    {1, 32, 8, 64, 16384, 64, true, {{"packed", 28.74}, {"decode", 47.15}, {"short", 50.60}}},
    {1, 32, 8, 128, 4096, 64, true, {{"packed", 18.67}, {"short", 15.99}}},
    {1, 32, 8, 128, 8192, 64, true, {{"packed", 28.21}, {"short", 27.17}}},
    {1, 32, 8, 128, 16384, 64, true, {{"packed", 53.39}, {"short", 51.30}}},
    {1, 32, 8, 256, 8192, 64, true, {{"packed", 49.44}, {"short", 41.46}}},
    {1, 32, 8, 256, 32768, 64, true, {{"packed", 163.93}, {"short", 151.35}}},
    {1, 40, 8, 100, 10000, 64, true, {{"packed", 36.56}, {"short", 50.37}}},
    {1, 16, 4, 20, 4096, 256, true, {{"packed", 22.72}, {"decode", 22.24}, {"main", 60.58}}},
    {1, 16, 4, 16, 4096, 256, true, {{"packed", 20.64}, {"decode", 21.77}, {"main", 60.64}}},
    {1, 16, 4, 64, 512, 256, true, {{"packed", 13.30}, {"main", 13.72}}},
    {1, 16, 4, 64, 1024, 256, true, {{"packed", 16.86}, {"main", 20.38}}},
    {1, 16, 4, 64, 2048, 256, true, {{"packed", 18.12}, {"main", 33.82}}},
    {1, 16, 4, 64, 8192, 256, true, {{"packed", 27.98}, {"main", 114.81}}},
    {1, 16, 4, 256, 1024, 256, true, {{"packed", 23.83}, {"main", 26.35}}},
    {1, 16, 4, 512, 1024, 256, true, {{"packed", 38.08}, {"main", 26.51}}},
    {1, 16, 4, 512, 8192, 256, true, {{"packed", 111.73}, {"main", 155.00}}},
    {1, 16, 4, 1024, 4096, 256, true, {{"packed", 129.74}, {"main", 86.89}}},
    {1, 8, 4, 64, 8192, 256, true, {{"packed", 28.27}, {"main", 115.74}}},
    {1, 8, 1, 64, 2048, 256, true, {{"packed", 19.91}, {"main", 33.75}}},
    {1, 16, 16, 64, 1024, 256, true, {{"packed", 13.79}, {"main", 20.47}}},
    {1, 16, 16, 64, 8192, 256, true, {{"packed", 43.46}, {"main", 115.93}}},
    {1, 16, 16, 256, 4096, 256, true, {{"packed", 41.36}, {"main", 82.55}}},
    {1, 32, 32, 128, 4096, 256, true, {{"packed", 53.03}, {"main", 82.44}}},
    {1, 16, 16, 512, 8192, 256, true, {{"packed", 115.82}, {"main", 158.22}}},
    {2, 16, 4, 256, 4096, 256, true, {{"packed", 69.49}, {"main", 83.51}}},
    {1, 32, 8, 64, 4096, 128, false, {{"packed", 16.48}, {"short", 20.21}, {"main", 19.37}}},
    {1, 32, 8, 64, 8192, 128, false, {{"packed", 22.71}, {"short", 36.14}, {"main", 27.86}}},
    {1, 32, 8, 64, 16384, 128, false, {{"packed", 34.07}, {"main", 45.22}}},
    {1, 32, 8, 128, 4096, 128, false, {{"packed", 23.29}, {"short", 20.83}, {"main", 23.00}}},
    {1, 32, 8, 128, 16384, 128, false, {{"packed", 57.48}, {"short", 69.32}, {"main", 58.94}}},
    {1, 32, 8, 256, 4096, 128, false, {{"packed", 37.47}, {"short", 35.79}, {"main", 36.73}}},
    {1, 32, 8, 256, 16384, 128, false, {{"packed", 106.12}, {"short", 127.21}, {"main", 106.45}}},
    {1, 32, 8, 512, 8192, 128, false, {{"packed", 115.12}, {"main", 93.35}}},
    {1, 28, 4, 100, 8192, 128, false, {{"packed", 28.85}, {"short", 35.83}, {"main", 30.62}}},
    {1, 8, 8, 64, 8192, 128, false, {{"packed", 16.38}, {"short", 36.10}, {"main", 18.83}}},
    {1, 8, 8, 256, 8192, 128, false, {{"packed", 22.68}, {"short", 36.12}, {"main", 23.27}}},
    {1, 5, 5, 4096, 4096, 128, false, {{"packed", 117.27}, {"main", 67.08}}},
    {1, 8, 8, 1024, 8192, 128, false, {{"packed", 59.58}, {"main", 59.54}}},
    {1, 32, 8, 16, 4096, 128, false, {{"packed", 13.82}, {"decode", 13.88}}},
    {1, 32, 8, 16, 8192, 128, false, {{"packed", 16.43}, {"decode", 19.38}}},
    {1, 32, 8, 16, 32768, 128, false, {{"packed", 43.67}, {"decode", 46.25}}},
    {16, 32, 8, 16, 4096, 128, false, {{"packed", 79.38}, {"decode", 71.95}}},
    {1, 24, 8, 16, 6000, 128, false, {{"packed", 15.03}, {"decode", 14.76}}},
    {1, 32, 8, 128, 16384, 256, false, {{"packed", 101.76}, {"main", 121.93}}},
    {1, 8, 8, 64, 8192, 64, false, {{"packed", 13.65}, {"decode", 12.03}, {"main", 14.85}}},
    {1, 8, 8, 128, 8192, 64, false, {{"packed", 15.32}, {"decode", 17.81}, {"main", 16.53}}},
    {1, 8, 8, 256, 8192, 64, false, {{"packed", 17.80}, {"decode", 23.35}, {"main", 20.26}}},
    {1, 16, 16, 128, 4096, 64, false, {{"packed", 13.29}, {"decode", 15.22}, {"main", 14.93}, {"short", 16.18}}},
    {1, 32, 8, 64, 8192, 64, false, {{"packed", 17.84}, {"decode", 23.46}, {"main", 21.08}, {"short", 28.33}}},
    {1, 32, 8, 128, 8192, 64, false, {{"packed", 26.64}, {"main", 25.34}, {"short", 27.12}}},
    {1, 16, 4, 16, 8192, 256, false, {{"packed", 22.42}, {"decode", 35.12}, {"main", 33.31}}},
    {1, 16, 4, 64, 2048, 256, false, {{"packed", 17.61}, {"main", 19.84}}},
    {1, 16, 4, 64, 8192, 256, false, {{"packed", 27.35}, {"main", 33.59}}},
    {1, 16, 4, 256, 4096, 256, false, {{"packed", 37.72}, {"main", 40.45}}},
    {1, 10, 10, 3000, 3000, 64, false, {{"packed", 77.46}, {"main", 49.06}}},
    {1, 3, 3, 4096, 4096, 64, false, {{"packed", 38.28}, {"main", 32.75}, {"short", 33.89}}},
};

Attention problem_of(const Cell& cell) {
    Attention problem{};
    problem.batch = cell.batch;
    problem.heads = problem.kv_heads = cell.heads;
    problem.q_len = cell.q_len;
    problem.k_len = cell.k_len;
    problem.head_dim = 64;
    problem.scale = 0.125f;
    problem.causal = cell.causal;
    return problem;
}

Attention problem_of(const Chunk& chunk) {
    Attention problem{};
    problem.batch = chunk.batch;
    problem.heads = chunk.heads;
    problem.kv_heads = chunk.kv_heads;
    problem.q_len = chunk.q_len;
    problem.k_len = chunk.k_len;
    problem.head_dim = chunk.head_dim;
    problem.scale = 0.125f;
    problem.causal = chunk.causal;
    problem.causal_offset = chunk.causal ? chunk.k_len - chunk.q_len : 0;
    return problem;
}

double main_time(const Attention& problem, int rows) {
    const int64_t tiles = (problem.q_len + rows - 1) / rows * problem.batch * problem.heads;
    const sm90::Rounds rounds{tiles, (problem.k_len + 127) / 128, 128, rows == 192 ? 0 : 4, kSms};
    return sm90::predicted_time(problem, rounds, rows,
                                rows == 192 ? sm90::kCost64x192 : sm90::kCost64x128);
}

std::string chosen(const Attention& problem) {
    std::string name;
    switch (kernels_for(problem, true, kSms)) {
        case Kernels::simt:
            return "simt";
        case Kernels::decode:
            return "decode";
        case Kernels::packed:
            return "packed";
        case Kernels::split:
            return "split";
        case Kernels::main:
            return main_time(problem, 192) <= main_time(problem, 128) ? "192" : "128";
        case Kernels::short_tiles:
            sm90::take_short_shape(problem, kSms, [&name](auto shape) {
                name = shape.kParts > 1 ? "cluster"
                                        : std::to_string(shape.kKeys) + "/" +
                                              std::to_string(shape.kFewKeys);
            });
            return name;
        default:
            return "another";
    }
}

const char* family_name(Kernels kernels) {
    switch (kernels) {
        case Kernels::decode:
            return "decode";
        case Kernels::packed:
            return "packed";
        case Kernels::short_tiles:
            return "short";
        case Kernels::main:
        case Kernels::wide:
            return "main";
        default:
            return "another";
    }
}

bool check(const Chunk& chunk) {
    const char* const choice = family_name(kernels_for(problem_of(chunk), true, kSms));
    double best = chunk.us.begin()->second;
    for (const auto& [name, time] : chunk.us) {
        best = std::min(best, time);
    }
    const auto found = chunk.us.find(choice);
    const bool good = found != chunk.us.end() && found->second <= 1.05 * best;
    if (!good) {
        std::printf("%lld,%lld (%lld),%lld x %lld,%lld %s: chosen %s (%.2f), best %.2f\n",
                    static_cast<long long>(chunk.batch), static_cast<long long>(chunk.heads),
                    static_cast<long long>(chunk.kv_heads), static_cast<long long>(chunk.q_len),
                    static_cast<long long>(chunk.k_len), static_cast<long long>(chunk.head_dim),
                    chunk.causal ? "causal" : "full", choice,
                    found == chunk.us.end() ? 0.0 : found->second, best);
    }
    return good;
}

bool check(const Cell& cell) {
    const Attention problem = problem_of(cell);
    const std::string choice = chosen(problem);
    double best = cell.us.begin()->second;
    for (const auto& [name, time] : cell.us) {
        best = std::min(best, time);
    }
    const auto found = cell.us.find(choice);
    const bool good = found != cell.us.end() && found->second <= 1.05 * best;
    bool predicted = true;
    for (const int rows : {192, 128}) {
        const auto measured = cell.us.find(std::to_string(rows));
        if (measured != cell.us.end()) {
            const double ratio = main_time(problem, rows) / measured->second;
            predicted = predicted && ratio > 0.93 && ratio < 1.07;
        }
    }
    if (!good || !predicted) {
        std::printf("%lld,%lld,%lld,%lld %s: chosen %s (%.2f), best %.2f; main 192 %.2f, 128 %.2f\n",
                    static_cast<long long>(cell.batch), static_cast<long long>(cell.heads),
                    static_cast<long long>(cell.q_len), static_cast<long long>(cell.k_len),
                    cell.causal ? "causal" : "full", choice.c_str(),
                    found == cell.us.end() ? 0.0 : found->second, best, main_time(problem, 192),
                    main_time(problem, 128));
    }
    return good && predicted;
}

}  // namespace

int main() {
    bool good = true;
    for (const Cell& cell : kCells) {
        good = check(cell) && good;
    }
    for (const Chunk& chunk : kChunks) {
        good = check(chunk) && good;
    }
    if (good) {
        std::printf("choice checked\n");
    }
    return good ? 0 : 1;
}
