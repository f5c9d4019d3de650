// The fp16 kernels of sm_90a for packed rows with divided keys.
#include "forward.h"
#include "packed_launch.h"

namespace flashbench::cuda::sm90 {

void forward_packed_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    if (!forward_packed<__half>(problem, scratch, stream)) {
        problem.head_dim <= 128 ? forward_fp16(problem, scratch, stream)
                                : forward_wide_fp16(problem, scratch, stream);
    }
}

}  // namespace flashbench::cuda::sm90
