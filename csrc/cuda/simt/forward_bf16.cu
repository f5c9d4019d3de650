// The bf16 kernels for a few keys. See kernel.h for the method.
#include "forward.h"
#include "launch.h"

namespace flashbench::cuda::simt {

void forward_bf16(const Attention& problem, cudaStream_t stream) {
    forward_any<__nv_bfloat16>(problem, stream);
}

}  // namespace flashbench::cuda::simt
