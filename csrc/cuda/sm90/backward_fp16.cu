// The fp16 kernels of the gradients. See backward_kernel.h for the method.
#include "backward.h"
#include "backward_launch.h"

namespace flashbench::cuda::sm90 {

void backward_fp16(const AttentionBackward& problem, const Scratch& scratch, cudaStream_t stream) {
    backward_of<__half>(problem, scratch, stream);
}

}  // namespace flashbench::cuda::sm90
