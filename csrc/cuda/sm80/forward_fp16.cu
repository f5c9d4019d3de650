// The fp16 kernels of sm_80 and later. See kernel.h for the method and launch.h for the tiles.
#include "forward.h"
#include "launch.h"

namespace flashbench::cuda::sm80 {

void forward_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    forward_any<__half>(problem, scratch, stream);
}

}  // namespace flashbench::cuda::sm80
