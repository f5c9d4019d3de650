// Divides the last tiles of a launch, or all packed ones, among SMs as the Hopper kernels and their merge
// do: exits with 1 and a line about the first launch whose parts leave out a block of keys, overlap or share
// a place, or whose packed rows do not fit their tiles.
#include <cstdio>
#include <cstdlib>
#include <set>

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

void check(const Tail& tail, int64_t parts, const Launched& launched) {
    expect(tail.shares <= launched.sms, "more shares than SMs", launched);
    // What the shares hold, as the scheduler walks over them.
    const int all = tail.tiles * tail.blocks;
    std::set<int> places;
    int next = 0;
    for (int share = 0; share < tail.shares; ++share) {
        expect(tail.first_block(share) == next, "a gap between shares", launched);
        expect(tail.first_block(share + 1) > next, "an empty share", launched);
        expect(tail.first_block(share + 1) - next <= (all + tail.shares - 1) / tail.shares,
               "a share above the others", launched);
        while (next < tail.first_block(share + 1)) {
            const int tile = next / tail.blocks;
            const int part = Tail::part(share, tile);
            expect(part < parts, "a part past the memory", launched);
            expect(places.insert(part).second, "two parts in one place", launched);
            for (const int end = (tile + 1) * tail.blocks;
                 next < end && next < tail.first_block(share + 1); ++next) {
                expect(tail.share_of(next) == share, "a block in another share", launched);
            }
        }
    }
    expect(next == all, "blocks left out", launched);
    // Every part that the merge of a tile reads was written.
    for (int tile = 0; tile < tail.tiles; ++tile) {
        const int last = tail.share_of((tile + 1) * tail.blocks - 1);
        for (int share = tail.share_of(tile * tail.blocks); share <= last; ++share) {
            expect(places.erase(Tail::part(share, tile)) == 1, "a part that nobody wrote", launched);
        }
    }
    expect(places.empty(), "a part that nobody reads", launched);
}

void check(const Rounds& rounds) {
    check({static_cast<int>(rounds.whole() * rounds.sms), static_cast<int>(rounds.tail()),
           static_cast<int>(rounds.blocks), static_cast<int>(rounds.shares()), nullptr, nullptr},
          rounds.parts(), {rounds.tiles, rounds.blocks, rounds.sms});
}

void check_packed(int64_t kv_heads, int64_t group, int64_t q_len, int64_t k_len, int64_t sms) {
    Attention problem{};
    problem.batch = 1;
    problem.heads = kv_heads * group;
    problem.kv_heads = kv_heads;
    problem.q_len = q_len;
    problem.k_len = k_len;
    const PackedTiles packed = packed_tiles(problem, 128, sms);
    const Launched launched{packed.tiles, packed.blocks, sms};
    const int64_t of_a_head = packed.tiles / kv_heads;
    expect(packed.rows <= kPackedTileRows && packed.rows % group == 0, "parts of queries", launched);
    expect(packed.rows + group > kPackedTileRows || packed.rows == q_len * group,
           "room for one more query", launched);
    expect(of_a_head * packed.rows >= q_len * group && (of_a_head - 1) * packed.rows < q_len * group,
           "too few or too many tiles", launched);
    expect(packed.blocks * 128 >= k_len, "too few blocks of keys", launched);
    if (packed.tiles > sms) {
        return;
    }
    expect(10 * packed.shares >= 9 * sms || packed.shares == packed.tiles * packed.blocks,
           "SMs without work", launched);
    check({0, static_cast<int>(packed.tiles), static_cast<int>(packed.blocks),
           static_cast<int>(packed.shares), nullptr, nullptr},
          packed.parts(), launched);
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
                        check_packed(kv_heads, group, q_len, k_len, sms);
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
