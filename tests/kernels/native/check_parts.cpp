// Divides the query heads of groups as the backward kernels for Hopper do: exits with 1 and a line about
// the first problem that is divided wrongly.
#include <cstdio>
#include <cstdlib>

#include "../../../csrc/cuda/sm90/backward_parts.h"

using namespace flashbench;
using namespace flashbench::cuda::sm90;

namespace {

constexpr int kSms = 132;  // an H200's

struct Problem {
    int64_t batch, heads, kv_heads, q_len, k_len, head_dim;
    bool causal;
};

int64_t key_blocks_of(const Problem& p) { return (p.k_len + 127) / 128; }

int parts_of(const Problem& p) {
    Attention forward{};
    forward.batch = p.batch;
    forward.heads = p.heads;
    forward.kv_heads = p.kv_heads;
    forward.q_len = p.q_len;
    forward.k_len = p.k_len;
    forward.causal = p.causal;
    const int64_t queries = p.head_dim <= 64 ? 128 : 64;
    return parts_of_group(forward, (p.q_len + queries - 1) / queries, key_blocks_of(p),
                          p.head_dim <= 128 ? TileSteps{1, 1} : TileSteps{3, 2}, kSms);
}

void expect(bool holds, const char* what, const Problem& p) {
    if (!holds) {
        std::printf("%s: %lld,%lld,%lld,%lld,%lld,%lld %s: %d parts\n", what,
                    static_cast<long long>(p.batch), static_cast<long long>(p.heads),
                    static_cast<long long>(p.kv_heads), static_cast<long long>(p.q_len),
                    static_cast<long long>(p.k_len), static_cast<long long>(p.head_dim),
                    p.causal ? "causal" : "full", parts_of(p));
        std::exit(1);
    }
}

// The parts that were measured on an H200, full and causal: docs/lab/cuda-kernels.md.
const struct {
    Problem problem;
    int full, causal;
} kMeasured[] = {
    {{1, 16, 4, 2048, 2048, 64, false}, 2, 4},   {{1, 32, 8, 1024, 1024, 64, false}, 2, 4},
    {{1, 16, 4, 2048, 2048, 128, false}, 2, 4},  {{1, 32, 8, 1024, 1024, 128, false}, 2, 4},
    {{1, 32, 8, 2048, 2048, 128, false}, 1, 2},  {{1, 32, 8, 4096, 4096, 128, false}, 1, 1},
    {{1, 16, 4, 2048, 2048, 256, false}, 2, 4},
};

}  // namespace

int main() {
    for (const auto& cell : kMeasured) {
        Problem p = cell.problem;
        expect(parts_of(p) == cell.full, "not as measured", p);
        p.causal = true;
        expect(parts_of(p) == cell.causal, "not as measured", p);
    }
    for (const int64_t kv_heads : {1, 2, 8, 40}) {
        for (const int64_t group : {1, 2, 3, 8, 64}) {
            for (const int64_t q_len : {1, 100, 1000, 10000}) {
                for (const int64_t k_len : {1, 100, 1000, 100000}) {
                    for (const int64_t head_dim : {64, 128, 256}) {
                        for (const bool causal : {false, true}) {
                            const Problem p{2,     group * kv_heads, kv_heads, q_len,
                                            k_len, head_dim,         causal};
                            const int parts = parts_of(p);
                            expect(parts >= 1 && group % parts == 0, "heads are left out", p);
                            expect(parts == 1 || parts * key_blocks_of(p) * 2 * kv_heads <= 4 * kSms,
                                   "more scratch memory than is told", p);
                        }
                    }
                }
            }
        }
    }
    std::puts("parts checked");
}
