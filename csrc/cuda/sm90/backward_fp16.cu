// The fp16 kernels of the gradients. See backward_kernel.h for the method.
#include "../backward.h"
#include "backward_launch.h"

namespace flashbench::cuda::sm90 {

const BackwardKernels kBackwardFp16 = backward_kernels<__half>;

}  // namespace flashbench::cuda::sm90
