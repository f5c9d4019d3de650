// Compares the choice of kernels and tiles with what was measured on an H200, a few on an H100 (132 SMs, bf16, graph
// replays, microseconds; docs/lab/cuda-kernels.md, "Short sequences, few queries and late bases", "Packed rows",
// "Results stored by the copy engine" and "Few heads under a causal mask"): exits with 1 and a line about each cell
// where the chosen one takes more than 5 % longer than the best.
#include <algorithm>
#include <cstdio>
#include <string>

#include "../../../csrc/cuda/families.h"
#include "../../../csrc/cuda/sm90/cost.h"
#include "../../../csrc/cuda/sm90/short_shapes.h"
#include "choice_cells.h"
#include "few_head_cells.h"
#include "few_key_cells.h"

using namespace flashbench;
using namespace flashbench::cuda;

namespace {

constexpr int kSms = 132;

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

Attention problem_of(const Cell& cell) {
    Attention problem = problem_of(
        Chunk{cell.batch, cell.heads, cell.heads, cell.q_len, cell.k_len, 64, cell.causal, {}});
    problem.causal_offset = 0;
    return problem;
}

const char* family_name(Kernels kernels) {
    switch (kernels) {
        case Kernels::simt:
            return "simt";
        case Kernels::split:
            return "split";
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

// The name of a cell's chosen kernel.
std::string chosen(const Attention& problem) {
    std::string name;
    const Kernels kernels = kernels_for(problem, true, kSms);
    switch (kernels) {
        case Kernels::main:
            return sm90::predicted_main_time(problem, 192, kSms) <=
                           sm90::predicted_main_time(problem, 128, kSms)
                       ? "192"
                       : "128";
        case Kernels::short_tiles:
            sm90::take_short_shape(problem, kSms, [&name](auto shape) {
                name = shape.kParts > 1 ? "cluster"
                                        : std::to_string(shape.kKeys) + "/" +
                                              std::to_string(shape.kFewKeys);
            });
            return name;
        default:
            return family_name(kernels);
    }
}

void print_problem(const Attention& problem) {
    std::printf("%lld,%lld (%lld),%lld x %lld,%lld %s: ", static_cast<long long>(problem.batch),
                static_cast<long long>(problem.heads), static_cast<long long>(problem.kv_heads),
                static_cast<long long>(problem.q_len), static_cast<long long>(problem.k_len),
                static_cast<long long>(problem.head_dim), problem.causal ? "causal" : "full");
}

// Whether the choice takes at most 5 % longer than the best; prints a line if not.
bool is_fast(const Attention& problem, const Times& us, const std::string& choice) {
    double best = us.begin()->second;
    for (const auto& [name, time] : us) {
        best = std::min(best, time);
    }
    const auto found = us.find(choice);
    if (found != us.end() && found->second <= 1.05 * best) {
        return true;
    }
    print_problem(problem);
    std::printf("chosen %s (%.2f), best %.2f\n", choice.c_str(),
                found == us.end() ? 0.0 : found->second, best);
    return false;
}

bool check(const Chunk& chunk) {
    const Attention problem = problem_of(chunk);
    if (kernels_for(problem, true, kSms, false) == Kernels::packed) {
        std::puts("packed rows without scratch memory");
        return false;
    }
    return is_fast(problem, chunk.us, family_name(kernels_for(problem, true, kSms)));
}

bool check(const Narrow& cell) {
    const Attention problem = problem_of(Chunk{cell.batch, cell.heads, cell.heads, cell.length,
                                               cell.length, 32, cell.causal, {}});
    const auto predicted = [&](int rows) { return sm90::predicted_main_time(problem, rows, kSms); };
    return is_fast(problem, cell.us, predicted(192) <= predicted(128) ? "192" : "128");
}

bool check(const Cell& cell) {
    const Attention problem = problem_of(cell);
    bool good = is_fast(problem, cell.us, chosen(problem));
    for (const int rows : {192, 128}) {
        const auto measured = cell.us.find(std::to_string(rows));
        if (measured == cell.us.end()) {
            continue;
        }
        const double predicted = sm90::predicted_main_time(problem, rows, kSms);
        const double ratio = predicted / measured->second;
        if (!(ratio > 0.93 && ratio < 1.07)) {
            print_problem(problem);
            std::printf("main %d predicted %.2f, measured %.2f\n", rows, predicted,
                        measured->second);
            good = false;
        }
    }
    return good;
}

// Whether a causal problem takes packed tiles, which it must not with a group that does not fit them, a mask that
// begins before the first key, or as many tiles as are faster each on an SM.
bool takes_packed(int64_t batch, int64_t heads, int64_t kv_heads, int64_t length, int64_t offset,
                  int64_t head_dim = 128) {
    Attention problem =
        problem_of(Chunk{batch, heads, kv_heads, length, length + offset, head_dim, true, {}});
    problem.causal_offset = offset;
    return kernels_for(problem, true, kSms) == Kernels::packed;
}

bool check_few_heads() {
    const bool good =
        takes_packed(1, 1, 1, 8192, 0) && takes_packed(2, 1, 1, 8192, 0) &&
        takes_packed(1, 1, 1, 8192, 1000) && takes_packed(1, 1, 1, 188 * 128, 0) &&
        takes_packed(1, 1, 1, 1400, 0, 256) && !takes_packed(8, 1, 1, 1400, 0, 256) &&
        !takes_packed(1, 65, 1, 8192, 0) && !takes_packed(1, 256, 1, 8192, 0) &&
        !takes_packed(1, 1, 1, 8192, -64) && !takes_packed(1, 1, 1, 235 * 128, 0) &&
        !takes_packed(1, 1, 1, 1 << 20, 0);
    if (!good) {
        std::puts("few heads: packed tiles where there must be none, or the reverse");
    }
    return good;
}

}  // namespace

int main() {
    bool good = check_few_heads();
    for (const Cell& cell : kCells) {
        good = check(cell) && good;
    }
    for (const auto* cells : {&kChunks, &kFewKeys, &kFewHeads}) {
        for (const Chunk& chunk : *cells) {
            good = check(chunk) && good;
        }
    }
    for (const Narrow& cell : kNarrow) {
        good = check(cell) && good;
    }
    if (good) {
        std::printf("choice checked\n");
    }
    return good ? 0 : 1;
}
