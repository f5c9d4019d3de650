// The bf16 kernels of sm_90a for packed rows with divided keys.
#include "forward.h"
#include "packed_launch.h"

namespace flashbench::cuda::sm90 {

bool forward_packed_bf16(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    return forward_packed_rows<__nv_bfloat16>(problem, scratch, stream);
}

}  // namespace flashbench::cuda::sm90
