// The fp16 kernels of sm_90a for head dims above 128.
#include "forward.h"
#include "head_dims.h"

namespace flashbench::cuda::sm90 {

void forward_wide_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    forward_wide<__half>(problem, scratch, stream);
}

}  // namespace flashbench::cuda::sm90
