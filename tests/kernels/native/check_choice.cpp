// Compares the choice of kernels and tiles with what was measured on an H200 (132 SMs, bf16, graph
// replays, microseconds; docs/lab/cuda-kernels.md, "Short sequences again"): exits with 1 and a line
// about each cell where the chosen one takes more than 5 % longer than the best.
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
    {1, 8, 128, 8192, false, {{"main", 20.79}, {"decode", 18.98}}},
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
    if (good) {
        std::printf("choice checked\n");
    }
    return good ? 0 : 1;
}
