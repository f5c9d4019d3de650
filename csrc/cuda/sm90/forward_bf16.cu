// The bf16 kernels of sm_90a. See kernel.h for the method and launch.h for the tiles.
#include "forward.h"
#include "launch.h"

namespace flashbench::cuda::sm90 {

void forward_bf16(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    forward_any<__nv_bfloat16>(problem, scratch, stream);
}

}  // namespace flashbench::cuda::sm90
