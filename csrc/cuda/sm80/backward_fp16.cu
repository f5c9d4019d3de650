// The fp16 kernels of the gradients on sm_80 and later. See backward_kernel.h for the method.
#include "../backward.h"
#include "backward_launch.h"

namespace flashbench::cuda::sm80 {

const BackwardKernels kBackwardFp16 = backward_kernels<__half>;

}  // namespace flashbench::cuda::sm80
