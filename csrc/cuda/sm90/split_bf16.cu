// The bf16 kernels of sm_90a for few query tiles. See split_kernel.h for the method and
// split_launch.h for the tiles.
#include "forward.h"
#include "split_launch.h"

namespace flashbench::cuda::sm90 {

void forward_split_bf16(const Attention& problem, cudaStream_t stream) {
    forward_split_any<__nv_bfloat16>(problem, stream);
}

}  // namespace flashbench::cuda::sm90
