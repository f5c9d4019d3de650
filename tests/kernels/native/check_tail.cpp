// Divides the last tiles of a launch among SMs as the Hopper kernel and its merge do: exits with 1 and a
// line about the first launch whose parts leave out a block of keys, overlap or share a place.
#include <cstdio>
#include <cstdlib>
#include <set>

#include "../../../csrc/cuda/sm90/tail.h"

using namespace flashbench::cuda::sm90;

namespace {

void expect(bool holds, const char* what, const Rounds& rounds) {
    if (!holds) {
        std::printf("%s: tiles %lld, blocks %lld, SMs %lld\n", what,
                    static_cast<long long>(rounds.tiles), static_cast<long long>(rounds.blocks),
                    static_cast<long long>(rounds.sms));
        std::exit(1);
    }
}

void check(const Rounds& rounds) {
    const Tail tail{static_cast<int>(rounds.whole() * rounds.sms), static_cast<int>(rounds.tail()),
                    static_cast<int>(rounds.blocks),               static_cast<int>(rounds.shares()),
                    nullptr,                                       nullptr};
    expect(tail.shares <= rounds.sms, "more shares than SMs", rounds);
    // What the shares hold, as the scheduler walks over them.
    const int all = tail.tiles * tail.blocks;
    std::set<int> places;
    int next = 0;
    for (int share = 0; share < tail.shares; ++share) {
        expect(tail.first_block(share) == next, "a gap between shares", rounds);
        expect(tail.first_block(share + 1) > next, "an empty share", rounds);
        expect(tail.first_block(share + 1) - next <= (all + tail.shares - 1) / tail.shares,
               "a share above the others", rounds);
        while (next < tail.first_block(share + 1)) {
            const int tile = next / tail.blocks;
            const int part = Tail::part(share, tile);
            expect(part < rounds.parts(), "a part past the memory", rounds);
            expect(places.insert(part).second, "two parts in one place", rounds);
            for (const int end = (tile + 1) * tail.blocks;
                 next < end && next < tail.first_block(share + 1); ++next) {
                expect(tail.share_of(next) == share, "a block in another share", rounds);
            }
        }
    }
    expect(next == all, "blocks left out", rounds);
    // Every part that the merge of a tile reads was written.
    for (int tile = 0; tile < tail.tiles; ++tile) {
        const int last = tail.share_of((tile + 1) * tail.blocks - 1);
        for (int share = tail.share_of(tile * tail.blocks); share <= last; ++share) {
            expect(places.erase(Tail::part(share, tile)) == 1, "a part that nobody wrote", rounds);
        }
    }
    expect(places.empty(), "a part that nobody reads", rounds);
}

}  // namespace

int main() {
    int divided = 0;
    for (const int64_t sms : {1, 7, 114, 132}) {
        for (int64_t tiles = 1; tiles <= 3 * sms; ++tiles) {
            for (const int64_t blocks : {1, 2, 3, 5, 8, 13, 26, 32, 33, 128, 1000}) {
                const Rounds rounds{tiles, blocks, 128, 4, sms};
                expect(rounds.divided_blocks() * sms >= rounds.tail() * blocks,
                       "less time than the blocks take", rounds);
                if (rounds.tail() > 0) {
                    check(rounds);
                }
                expect(!rounds.divide() || rounds.tail() > 0, "no tail to divide", rounds);
                divided += rounds.divide();
            }
        }
    }
    const Rounds huge{131, int64_t{1} << 24, 128, 4, 132};
    expect(!huge.divide(), "more blocks than an int counts", huge);
    if (divided < 1000) {
        std::printf("only %d launches are divided\n", divided);
        return 1;
    }
    std::puts("tail checked");
}
