// The fp8 kernels of sm_90a. See fp8_kernel.h for the method.
//
//   width  rows x keys  stages  registers  shared memory
//      64    128 x 128       4        240          72 KB
//     128    128 x 128       4        240         144 KB
//
// With a shifted mask width 128 spills 8 bytes a thread.
#include <algorithm>
#include <limits>
#include <stdexcept>

#include "../device.h"
#include "fp8_kernel.h"
#include "forward.h"
#include "tensor_map.h"

namespace flashbench::cuda::sm90 {

namespace {

template <typename Tile>
void launch(const AttentionE4m3& problem, cudaStream_t stream) {
    using fp8::kKeys;
    using fp8::kRows;
    const int device = current_device();
    const int64_t tiles = (problem.q_len + kRows - 1) / kRows;
    const int64_t total = tiles * problem.batch * problem.heads;
    if (total > std::numeric_limits<int>::max() / 2) {
        throw std::invalid_argument("batch * heads * q_len is too large for one CUDA grid");
    }
    const int64_t key_columns = (problem.k_len + kKeys - 1) / kKeys * kKeys;
    fp8::Launch arguments;
    encode_byte_tensor_map(problem.q,
                           {1, problem.batch * problem.heads, problem.q_len, Tile::kWidth},
                           Tile::kWidth, kRows, arguments.query);
    encode_byte_tensor_map(problem.k,
                           {1, problem.batch * problem.kv_heads, problem.k_len, Tile::kWidth},
                           Tile::kWidth, kKeys, arguments.key);
    encode_byte_tensor_map(problem.v,
                           {1, problem.batch * problem.kv_heads, Tile::kWidth, key_columns}, kKeys,
                           Tile::kWidth, arguments.value);
    arguments.problem = problem;
    arguments.scale_log2 = problem.scale * kLog2E;
    arguments.tiles = static_cast<int>(tiles);
    arguments.heads = static_cast<int>(problem.batch * problem.heads);

    const int64_t blocks = std::min<int64_t>(total, device_at(device).multiprocessors);
    constexpr int kSharedBytes = fp8::Shared<Tile>::kBytes;
    allow_shared_bytes(reinterpret_cast<const void*>(fp8::forward_e4m3<Tile>), kSharedBytes,
                       device);
    fp8::forward_e4m3<Tile>
        <<<static_cast<unsigned>(blocks), fp8::kThreads, kSharedBytes, stream>>>(arguments);
    check(cudaGetLastError());
}

}  // namespace

void forward_fp8(const AttentionE4m3& problem, cudaStream_t stream) {
    const bool shifted = problem.causal && problem.causal_offset != 0;
    if (problem.width == 64) {
        shifted ? launch<fp8::Tile<64, 4, true>>(problem, stream)
                : launch<fp8::Tile<64, 4, false>>(problem, stream);
    } else {
        shifted ? launch<fp8::Tile<128, 4, true>>(problem, stream)
                : launch<fp8::Tile<128, 4, false>>(problem, stream);
    }
}

}  // namespace flashbench::cuda::sm90
