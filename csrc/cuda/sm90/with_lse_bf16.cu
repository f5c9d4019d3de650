// The bf16 kernels of sm_90a that also store the log-sum-exp of each row, for gradients.
#include "forward.h"
#include "head_dims.h"

namespace flashbench::cuda::sm90 {

void forward_with_lse_bf16(const Attention& problem, cudaStream_t stream) {
    forward_with_lse<__nv_bfloat16>(problem, stream);
}

}  // namespace flashbench::cuda::sm90
