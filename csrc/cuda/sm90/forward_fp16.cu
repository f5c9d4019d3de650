// The fp16 kernels of sm_90a for head dims to 128. See kernel.h for the method and head_dims.h for
// the tiles.
#include "forward.h"
#include "head_dims.h"

namespace flashbench::cuda::sm90 {

void forward_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    forward_narrow<__half>(problem, scratch, stream);
}

}  // namespace flashbench::cuda::sm90
