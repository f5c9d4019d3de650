// The fp16 kernels for few queries and many keys. See kernel.h for the method and pick_tile.h
// for the tiles.
#include "forward.h"
#include "pick_tile.h"

namespace flashbench::cuda::decode {

void forward_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream) {
    forward_any<__half>(problem, scratch, stream);
}

}  // namespace flashbench::cuda::decode
