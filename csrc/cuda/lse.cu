#include "lse.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "constants.h"
#include "device.h"

namespace flashbench::cuda {

namespace {

constexpr int kThreads = 256;

__global__ void store_minus_infinity(float* lse, int64_t q_len, int64_t lse_rows, int64_t heads) {
    for (int64_t head = blockIdx.y; head < heads; head += gridDim.y) {
        for (int64_t row = blockIdx.x * int64_t{kThreads} + threadIdx.x; row < q_len;
             row += gridDim.x * int64_t{kThreads}) {
            lse[head * lse_rows + row] = -INFINITY;
        }
    }
}

}  // namespace

void store_lse_of_no_keys(const Attention& problem, cudaStream_t stream) {
    const int64_t heads = problem.batch * problem.heads;
    const dim3 grid(static_cast<unsigned>(
                        std::min<int64_t>((problem.q_len + kThreads - 1) / kThreads, 1024)),
                    static_cast<unsigned>(std::min<int64_t>(heads, kMaxGridRows)));
    store_minus_infinity<<<grid, kThreads, 0, stream>>>(problem.lse, problem.q_len,
                                                        problem.lse_rows, heads);
    check(cudaGetLastError());
}

}  // namespace flashbench::cuda
