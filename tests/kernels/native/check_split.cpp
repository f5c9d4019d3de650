// Divides keys as the CUDA kernels for few queries do, and merges parts of a softmax as they do:
// exits with 1 and a line about the first problem whose division is wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../../../csrc/cuda/decode/split.h"

using namespace flashbench::cuda::decode;

namespace {

// An H200's counts for a block an SM, a GPU that places few large clusters, one without clusters.
const std::vector<std::vector<int>> kPlaces = {
    {0, 132, 66, 42, 30, 23, 20, 16, 15, 13, 7, 7, 7, 7, 7, 7, 7},
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

}  // namespace

int main() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (const auto& places : kPlaces) {
        for (const int64_t tiles : {1, 2, 3, 7, 8, 15, 16, 64, 132, 133, 400, 2048, 100000}) {
            for (const int steps : {1, 2, 3, 5, 16, 33, 128, 1000, 4096, 100001}) {
                for (const bool scratch : {false, true}) {
                    const Room room{tiles, steps, 4, 65536, 132, places.data(), scratch};
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
