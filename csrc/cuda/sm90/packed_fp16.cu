// The fp16 kernels of sm_90a for packed rows with divided keys.
#include "forward.h"
#include "packed_launch.h"

namespace flashbench::cuda::sm90 {

bool forward_packed_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    return forward_packed_rows<__half>(problem, scratch, stream);
}

}  // namespace flashbench::cuda::sm90
