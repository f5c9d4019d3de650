// Cuts heads into sections as the Hopper kernels do: exits with 1 and a line about the first launch whose short tiles
// are left out or computed twice, whose sections cut a group of heads or hold more K and V than stay in L2, whose
// busiest SM has much more to do than without sections, or that is cut otherwise than was measured to be fastest.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../../../csrc/cuda/sm90/sections.h"
#include "../../../csrc/cuda/sm90/short_section.h"

using namespace flashbench;
using namespace flashbench::cuda;
using namespace flashbench::cuda::sm90;

namespace {

constexpr int64_t kSms = 132;
constexpr int64_t kH100 = int64_t{50} << 20;  // bytes of L2
constexpr int64_t kH200 = int64_t{60} << 20;

Attention problem_of(int64_t batch, int64_t heads, int64_t kv_heads, int64_t length,
                     int64_t head_dim, bool causal) {
    Attention problem{};
    problem.batch = batch;
    problem.heads = heads;
    problem.kv_heads = kv_heads;
    problem.q_len = length;
    problem.k_len = length;
    problem.head_dim = head_dim;
    problem.causal = causal;
    problem.k_strides.batch = kv_heads * length * head_dim;
    problem.v_strides.batch = problem.k_strides.batch;
    return problem;
}

void expect(bool holds, const char* what, const Attention& problem) {
    if (!holds) {
        std::printf("%s: %lld,%lld (%lld),%lld,%lld %s\n", what,
                    static_cast<long long>(problem.batch), static_cast<long long>(problem.heads),
                    static_cast<long long>(problem.kv_heads),
                    static_cast<long long>(problem.q_len),
                    static_cast<long long>(problem.head_dim), problem.causal ? "causal" : "full");
        std::exit(1);
    }
}

int64_t tiles_of_head(const Attention& problem, int64_t rows) {
    return (problem.q_len + rows - 1) / rows;
}

int64_t short_section_of(const Attention& problem, int64_t l2_bytes) {
    return short_section(problem, tiles_of_head(problem, 64), kSms, l2_bytes);
}

void check_short(const Attention& problem, int64_t l2_bytes) {
    const int64_t tiles = tiles_of_head(problem, 64);
    const int64_t all = problem.batch * problem.heads;
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t section = short_section_of(problem, l2_bytes);
    expect(section == 1 || section % group == 0, "a section that cuts a group", problem);
    if (problem.causal && section > 1 && all <= kMaxGridRows) {
        // Rounded up to a group of heads.
        const int64_t kv_heads = section / group - (section > group ? 1 : 0);
        expect(15 * 2 * kv_heads * problem.k_len * problem.head_dim * kElementBytes <=
                       7 * l2_bytes ||
                   section == group,
               "a section with too many keys", problem);
    }
    const ShortGrid grid = short_grid(section, all, tiles);
    expect(grid.rows <= kMaxGridRows && grid.layers <= kMaxGridRows, "a grid too large", problem);
    std::vector<char> taken(all * tiles);
    for (int64_t layer = 0; layer < grid.layers; ++layer) {
        for (int64_t row = 0; row < grid.rows; ++row) {
            for (int64_t column = 0; column < grid.columns; ++column) {
                const ShortPlace place =
                    short_place(static_cast<unsigned>(section), static_cast<unsigned>(column),
                                static_cast<unsigned>(row), static_cast<unsigned>(layer));
                if (place.batch_head >= all) {
                    continue;
                }
                char& once = taken[place.batch_head * tiles + place.tile];
                expect(place.tile < tiles && !once, "a tile computed twice", problem);
                once = 1;
            }
        }
    }
    for (const char once : taken) {
        expect(once, "a tile left out", problem);
    }
}

// Tiles of keys that all queries see, as sections_of counts them.
int64_t seen_by_all(const Attention& problem, int64_t tiles) {
    return problem.causal_offset * tiles / problem.q_len;
}

// The most work of a block, in tiles of keys, as TileScheduler walks; each tile once.
int64_t busiest(const Attention& problem, const Sections& sections, int64_t tiles, int64_t blocks) {
    const int64_t all = problem.batch * problem.heads;
    std::vector<int64_t> work(blocks);
    std::vector<char> taken(all * tiles);
    bool back = false;
    int64_t heads = 0;
    for (int64_t first = 0; first < all; first += heads) {
        const bool rest = first >= sections.rest;
        const bool by_head = sections.by_head && !rest;
        const int64_t slots = by_head ? sections.heads * tiles : blocks;
        heads = rest ? all - first : std::min(sections.heads, all - first);
        const int64_t rounds = ((rest ? heads : sections.heads) * tiles + slots - 1) / slots;
        for (int64_t round = 0; round < rounds; ++round) {
            for (int64_t block = 0; block < blocks; ++block) {
                const int64_t index = round * slots + (back ? slots - 1 - block : block);
                if (index < 0 || index >= heads * tiles) {
                    continue;
                }
                const int64_t head =
                    first + (by_head ? index / tiles : index % heads);
                const int64_t longer = by_head ? index % tiles : index / heads;
                char& once = taken[head * tiles + longer];
                expect(!once, "a tile computed twice", problem);
                once = 1;
                work[block] += seen_by_all(problem, tiles) + tiles - longer;
            }
            back = !back;
        }
    }
    for (const char once : taken) {
        expect(once, "a tile left out", problem);
    }
    return *std::max_element(work.begin(), work.end());
}

void check_main(const Attention& problem, int64_t l2_bytes, int64_t sms) {
    const int64_t tiles = tiles_of_head(problem, 128);
    const int64_t all = problem.batch * problem.heads;
    const int64_t group = problem.heads / problem.kv_heads;
    const int64_t blocks = std::min(sms, tiles * all);
    const Sections sections = sections_of(problem, tiles, blocks, l2_bytes);
    expect(sections.heads >= 1 && sections.heads <= all, "a section of no or too many heads",
           problem);
    const int64_t longest = busiest(problem, sections, tiles, blocks);
    const int64_t work = all * tiles * (2 * seen_by_all(problem, tiles) + tiles + 1) / 2;
    if (sections.by_head) {
        expect(problem.causal && sections.heads * tiles <= blocks,
               "a section that does not fit in a round", problem);
        if (sections.rest == all) {
            expect(20 * longest * blocks <= 21 * work, "rounds that keep an SM busy longer", problem);
        } else {
            expect(sections.rest > 0 && sections.rest % (2 * sections.heads) == 0,
                   "an odd number of rounds before the rest", problem);
            expect(sections.rest + sections.heads <= all && all < sections.rest + 3 * sections.heads,
                   "a rest of other than one to three rounds", problem);
            expect(5 * longest * blocks <= 6 * work ||
                       longest <= busiest(problem, one_section(all), tiles, blocks),
                   "a rest that keeps an SM busy longer", problem);
        }
        return;
    }
    expect(sections.rest == all, "a rest of sections that are not by head", problem);
    expect(sections.heads == all || sections.heads % group == 0, "a section that cuts a group",
           problem);
    expect(sections.heads == all || tiles >= 8, "sections of few tiles that are not by head", problem);
}

}  // namespace

int main() {
    for (const int64_t l2_bytes : {kH100, kH200}) {
        for (const int64_t batch : {1, 2, 6, 16, 64}) {
            for (const int64_t kv_heads : {1, 3, 8}) {
                for (const int64_t group : {1, 4, 5}) {
                    for (const int64_t length : {1, 64, 65, 300, 512, 768, 1000, 1024}) {
                        for (const int64_t head_dim : {32, 64, 128, 256}) {
                            for (const bool causal : {false, true}) {
                                const Attention problem = problem_of(
                                    batch, kv_heads * group, kv_heads, length, head_dim, causal);
                                if (head_dim <= 128) {
                                    check_short(problem, l2_bytes);
                                }
                                for (const int64_t sms : {kSms, int64_t{114}, int64_t{7}, int64_t{2}}) {
                                    check_main(problem, l2_bytes, sms);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    for (const int64_t heads : {40, 132, 200, 1000}) {
        for (const int64_t length : {200, 300, 500, 700, 1000}) {
            for (const int64_t offset : {1, 100, 150, 400, 2000}) {
                Attention problem = problem_of(1, heads, heads, length, 128, true);
                problem.causal_offset = offset;
                problem.k_len += offset;
                check_main(problem, kH200, kSms);
            }
        }
    }
    check_short(problem_of(70000, 1, 1, 100, 64, false), kH200);
    check_short(problem_of(70000, 1, 1, 100, 64, true), kH200);
    // Measured.
    const auto expect_short = [](const Attention& problem, int64_t l2_bytes, int64_t section) {
        expect(short_section_of(problem, l2_bytes) == section, "another section", problem);
    };
    expect_short(problem_of(8, 12, 12, 1024, 64, true), kH200, 96);
    expect_short(problem_of(8, 12, 12, 1024, 64, true), kH100, 48);
    expect_short(problem_of(16, 16, 16, 1024, 64, true), kH200, 86);
    expect_short(problem_of(64, 12, 12, 512, 64, true), kH200, 1);
    expect_short(problem_of(64, 16, 16, 256, 128, true), kH200, 1);
    expect_short(problem_of(1, 8, 8, 512, 128, false), kH200, 8);
    expect_short(problem_of(1, 8, 8, 512, 64, false), kH200, 1);
    const auto expect_main = [](const Attention& problem, int64_t heads, bool by_head,
                                int64_t rest = 0) {
        const Sections sections =
            sections_of(problem, tiles_of_head(problem, 128), kSms, kH200);
        expect(sections.heads == heads && sections.by_head == by_head, "another section", problem);
        expect(sections.rest == (rest == 0 ? problem.batch * problem.heads : rest), "another rest",
               problem);
    };
    expect_main(problem_of(64, 16, 16, 256, 128, true), 66, true);
    expect_main(problem_of(16, 16, 16, 768, 128, true), 22, true);
    expect_main(problem_of(16, 16, 16, 512, 128, true), 33, true);
    expect_main(problem_of(32, 16, 16, 384, 192, true), 44, true);
    expect_main(problem_of(32, 16, 16, 512, 256, true), 33, true);
    expect_main(problem_of(42, 8, 8, 512, 128, true), 33, true, 264);
    expect_main(problem_of(16, 25, 25, 512, 128, true), 33, true, 330);
    expect_main(problem_of(62, 12, 12, 256, 128, true), 66, true, 660);
    expect_main(problem_of(20, 12, 12, 640, 128, true), 26, true, 208);
    expect_main(problem_of(16, 16, 16, 896, 128, true), 18, true, 216);
    expect_main(problem_of(13, 8, 8, 512, 128, true), 104, false);
    // Not measured: all K and V in L2; three whole rounds, and fewer; masks at the bottom right.
    expect_main(problem_of(1, 99, 99, 512, 256, true), 33, true, 66);
    Attention bottom_right = problem_of(1, 132, 132, 250, 104, true);
    bottom_right.causal_offset = 150;
    bottom_right.k_len += bottom_right.causal_offset;
    expect_main(bottom_right, 66, true);
    bottom_right.heads = bottom_right.kv_heads = 90;
    expect_main(bottom_right, 90, false);
    expect_main(problem_of(8, 12, 12, 384, 128, true), 96, false);
    expect_main(problem_of(6, 8, 8, 768, 256, true), 48, false);
    expect_main(problem_of(8, 12, 12, 768, 128, true), 22, true, 44);
    std::printf("sections checked\n");
}
