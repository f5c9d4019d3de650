// The bf16 kernels of the gradients on sm_80 and later. See backward_kernel.h for the method.
#include "../backward.h"
#include "backward_launch.h"

namespace flashbench::cuda::sm80 {

const BackwardKernels kBackwardBf16 = backward_kernels<__nv_bfloat16>;

}  // namespace flashbench::cuda::sm80
