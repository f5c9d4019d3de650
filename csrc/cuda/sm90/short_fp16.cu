// The fp16 kernels of sm_90a for short sequences. See short_kernel.h for the method and
// short_shapes.h for the tiles.
#include "forward.h"
#include "short_launch.h"

namespace flashbench::cuda::sm90 {

void forward_short_fp16(const Attention& problem, cudaStream_t stream) {
    forward_short_any<__half>(problem, stream);
}

}  // namespace flashbench::cuda::sm90
