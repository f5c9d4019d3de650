// Divides keys as the CUDA kernels for few queries do, and merges parts of a softmax as they do, and
// compares the choice with what was measured on an H200 (docs/lab/cuda-kernels.md, "How to divide"):
// exits with 1 and a line about the first problem whose division is wrong, or takes more than 5 % longer
// than the best.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

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

// One query, tiles of 16 rows, microseconds by "splits,cluster": bf16, graph replays, in turns.
struct Cell {
    int64_t tiles, keys;
    int head_dim;
    std::map<std::string, double> us;
};

const std::vector<Cell> kCells = {
    {8, 4096, 64, {{"8,8", 5.69}, {"16,1", 6.89}, {"8,1", 7.16}, {"8,4", 7.27}}},
    {32, 4096, 64, {{"3,3", 8.60}, {"2,2", 10.39}}},
    {1, 8192, 128, {{"64,8", 6.63}, {"64,1", 7.27}, {"32,4", 7.49}, {"32,8", 7.74}, {"132,1", 8.26}}},
    {1, 32768, 128, {{"64,8", 8.74}, {"64,1", 9.23}, {"128,1", 10.29}, {"132,1", 10.44}}},
    {2, 8192, 128, {{"32,4", 7.17}, {"66,1", 7.17}, {"32,8", 7.23}, {"32,1", 7.41}}},
    {4, 2048, 128, {{"16,16", 5.18}, {"8,8", 5.72}, {"16,1", 5.81}, {"33,1", 5.98}, {"16,8", 6.00}}},
    {4, 8192, 128, {{"16,16", 7.96}, {"16,8", 8.15}, {"33,1", 8.19}}},
    {8, 512, 128, {{"8,8", 4.26}, {"4,4", 4.30}}},
    {8, 1024, 128, {{"8,8", 4.44}, {"6,6", 5.23}, {"5,5", 5.23}, {"4,4", 5.24}, {"7,7", 5.24}, {"16,1", 5.42}, {"8,1", 5.49}, {"8,4", 5.75}}},
    {8, 4096, 128, {{"8,8", 6.59}, {"16,1", 7.62}}},
    {16, 1024, 128, {{"4,4", 5.53}, {"5,5", 5.91}, {"8,1", 5.96}, {"6,6", 6.02}, {"4,1", 6.82}}},
    {16, 4096, 128, {{"4,4", 8.43}, {"6,6", 9.30}, {"8,1", 9.67}}},
    {64, 4096, 128, {{"2,2", 34.20}, {"1,1", 34.33}}},
    {4, 4096, 256, {{"16,16", 8.39}, {"33,1", 8.76}}},
    {32, 8192, 256, {{"4,1", 66.40}, {"2,2", 66.76}}},
};

// As forward_few_rows asks: Long's steps of 32 keys at head dim 128, of 64 or 16 at the others.
bool check(const Cell& cell) {
    const int keys = 4096 / cell.head_dim;
    const int64_t bytes = cell.tiles * cell.keys * cell.head_dim * 4;
    const Room room{cell.tiles, static_cast<int>((cell.keys + keys - 1) / keys), 16384, 132,
                    kPlaces[0].data(), true, cell.head_dim, bytes > (60 << 20) / 8 * 7};
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
    if (!good) {
        return 1;
    }
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (const auto& places : kPlaces) {
        for (const int64_t tiles : {1, 2, 3, 7, 8, 15, 16, 64, 132, 133, 400, 2048, 100000}) {
            for (const int steps : {1, 2, 3, 5, 16, 33, 128, 1000, 4096, 100001}) {
                for (const bool scratch : {false, true}) {
                    const Room room{tiles, steps, 16384, 132, places.data(), scratch, 128, false};
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
