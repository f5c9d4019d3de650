// Divides the last tiles of a launch, or all packed ones, among SMs as the Hopper kernels and their merge
// do: exits with 1 and a line about the first launch whose parts leave out a block of keys, overlap or share
// a place, or whose packed rows do not fit their tiles.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <set>
#include <vector>

#include "../../../csrc/cuda/sm90/packed_shapes.h"
#include "../../../csrc/cuda/sm90/tail.h"

using namespace flashbench;
using namespace flashbench::cuda::sm90;

namespace {

// What a message says about a launch.
struct Launched {
    int64_t tiles, blocks, sms;
};

void expect(bool holds, const char* what, const Launched& launched) {
    if (!holds) {
        std::printf("%s: tiles %lld, blocks %lld, SMs %lld\n", what,
                    static_cast<long long>(launched.tiles), static_cast<long long>(launched.blocks),
                    static_cast<long long>(launched.sms));
        std::exit(1);
    }
}

// A tail whose tiles see so many blocks of keys, after `before` steps each, walked over as the scheduler and the
// merge do.
void check(const Tail& tail, const std::vector<int>& seen, int before, int64_t parts,
           const Launched& launched) {
    expect(tail.shares <= launched.sms, "more shares than SMs", launched);
    expect(tail.first_step(0) == 0 && tail.first_step(tail.shares) == tail.steps,
           "steps left out", launched);
    for (int share = 0; share < tail.shares; ++share) {
        const int own = tail.first_step(share + 1) - tail.first_step(share);
        expect(own > 0, "an empty share", launched);
        expect(own <= (tail.steps + tail.shares - 1) / tail.shares, "a share above the others",
               launched);
    }
    std::set<int> places;
    int start = 0;  // of the tile in the sequence
    for (int tile = 0; tile < tail.tiles; ++tile) {
        const int first = start + before;
        const int end = first + seen[static_cast<size_t>(tile)];
        // What the merge reads.
        const int last = tail.share_of(end - 1);
        int next = first;
        for (int share = tail.share_of(first); share <= last; ++share) {
            const int part = Tail::part(share, tile);
            expect(part < parts, "a part past the memory", launched);
            expect(places.insert(part).second, "two parts in one place", launched);
            // What the share computes of the tile.
            const int from = std::max(tail.first_step(share), first);
            const int to = std::min(tail.first_step(share + 1), end);
            expect(from == next && to > from, "a gap between parts, or an empty one", launched);
            next = to;
        }
        expect(next == end, "blocks left out", launched);
        start = end;
    }
    expect(start == tail.steps, "another sum of steps", launched);
}

void check(const Rounds& rounds) {
    const auto tiles = static_cast<int>(rounds.tail());
    check({static_cast<int>(rounds.whole() * rounds.sms), tiles,
           static_cast<int>(rounds.tail() * rounds.blocks), 0, static_cast<int>(rounds.shares()),
           nullptr, nullptr},
          std::vector<int>(static_cast<size_t>(tiles), static_cast<int>(rounds.blocks)),
          0, rounds.parts(), {rounds.tiles, rounds.blocks, rounds.sms});
}

// `offset`: of a causal mask; none if negative.
void check_packed(int64_t kv_heads, int64_t group, int64_t q_len, int64_t k_len, int64_t sms,
                  int64_t offset, int keys_of_block) {
    Attention problem{};
    problem.batch = 1;
    problem.heads = kv_heads * group;
    problem.kv_heads = kv_heads;
    problem.q_len = q_len;
    problem.k_len = k_len;
    problem.causal = offset >= 0;
    problem.causal_offset = std::max<int64_t>(offset, 0);
    const bool uneven = offset >= 0 && 2 * offset < k_len;
    const PackedTiles packed = packed_tiles(problem);
    const int64_t rows = packed.queries * group;
    const int64_t head_steps = packed_head_steps(problem, keys_of_block);
    const int64_t steps = kv_heads * head_steps;
    const int64_t shares = packed_shares(problem, steps, sms);
    const Launched launched{packed.tiles, steps, sms};
    expect(rows <= kPackedTileRows, "parts of queries", launched);
    expect(rows + group > kPackedTileRows || packed.queries == q_len, "room for one more query",
           launched);
    expect(packed.of_head * packed.queries >= q_len && (packed.of_head - 1) * packed.queries < q_len,
           "too few or too many tiles", launched);
    expect(packed.tiles == kv_heads * packed.of_head, "tiles left out", launched);
    expect(shares == steps || shares == sms || (!uneven && 10 * shares >= 9 * sms),
           "SMs without work", launched);
    expect(uneven || shares == steps || shares == sms || shares % packed.tiles == 0,
           "shares that tiles do not divide", launched);
    std::vector<int> seen;
    for (int64_t head = 0; head < kv_heads; ++head) {
        for (int64_t tile = 0; tile < packed.of_head; ++tile) {
            const int64_t last = std::min((tile + 1) * packed.queries, q_len) - 1;
            const int64_t keys = uneven ? std::min(k_len, last + offset + 1) : k_len;
            seen.push_back(blocks_of(static_cast<int>(keys), keys_of_block));
        }
    }
    check({0, static_cast<int>(packed.tiles), static_cast<int>(steps),
           uneven ? static_cast<int>(head_steps) : 0, static_cast<int>(shares), nullptr, nullptr},
          seen, uneven ? start_steps(keys_of_block) : 0, shares + packed.tiles, launched);
}

}  // namespace

int main() {
    int divided = 0;
    for (const int64_t sms : {1, 7, 114, 132}) {
        for (int64_t tiles = 1; tiles <= 3 * sms; ++tiles) {
            for (const int64_t blocks : {1, 2, 3, 5, 8, 13, 26, 32, 33, 128, 1000}) {
                const Rounds rounds{tiles, blocks, 128, 4, sms};
                const Launched launched{tiles, blocks, sms};
                expect(rounds.divided_blocks() * sms >= rounds.tail() * blocks,
                       "less time than the blocks take", launched);
                if (rounds.tail() > 0) {
                    check(rounds);
                }
                expect(!rounds.divide() || rounds.tail() > 0, "no tail to divide", launched);
                divided += rounds.divide();
            }
        }
    }
    const Rounds huge{131, int64_t{1} << 24, 128, 4, 132};
    expect(!huge.divide(), "more blocks than an int counts", {huge.tiles, huge.blocks, huge.sms});
    for (const int64_t sms : {7, 114, 132}) {
        for (const int64_t kv_heads : {1, 2, 3, 8, 32}) {
            for (const int64_t group : {1, 2, 3, 4, 5, 7, 8, 16, 40, 64}) {
                for (const int64_t q_len : {1, 5, 17, 64, 100, 129, 1000}) {
                    for (const int64_t k_len : {1, 1000, 4096, 8193}) {
                        for (const int64_t offset : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{63},
                                                     int64_t{100}, k_len / 3, k_len - q_len}) {
                            for (const int keys : {64, 128}) {
                                check_packed(kv_heads, group, q_len, k_len, sms, offset, keys);
                            }
                        }
                    }
                }
            }
        }
    }
    if (divided < 1000) {
        std::printf("only %d launches are divided\n", divided);
        return 1;
    }
    std::puts("tail checked");
}
