// The bf16 kernels of the gradients. See backward_kernel.h for the method.
#include "../backward.h"
#include "backward_launch.h"

namespace flashbench::cuda::sm90 {

const BackwardKernels kBackwardBf16 = backward_kernels<__nv_bfloat16>;

}  // namespace flashbench::cuda::sm90
