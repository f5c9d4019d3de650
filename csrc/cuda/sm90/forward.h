// The host interface of the sm_90a forward kernels: one function per dtype, each in its own unit.
#pragma once

#include <cuda_runtime.h>

#include "../../attention.h"

namespace flashbench::cuda::sm90 {

// Enqueue one kernel on `stream`, or two with memory from `scratch`. The problem has been checked,
// has at least one query and one key, and its scale is positive and finite. `wide` is for head dims
// above 128, the others for those up to it: `split` for few query tiles, `short` for short sequences.
// For any head dim: `packed`, for few queries on many keys, which enqueues nothing and returns false
// without scratch memory, and `with_lse`, which also writes the log-sum-exp of each row.
void forward_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);
void forward_bf16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);
void forward_wide_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);
void forward_wide_bf16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);
bool forward_packed_fp16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);
bool forward_packed_bf16(const Attention& problem, const Scratch& scratch, cudaStream_t stream);
void forward_split_fp16(const Attention& problem, cudaStream_t stream);
void forward_split_bf16(const Attention& problem, cudaStream_t stream);
void forward_short_fp16(const Attention& problem, cudaStream_t stream);
void forward_short_bf16(const Attention& problem, cudaStream_t stream);
void forward_with_lse_fp16(const Attention& problem, cudaStream_t stream);
void forward_with_lse_bf16(const Attention& problem, cudaStream_t stream);
void forward_fp8(const AttentionE4m3& problem, cudaStream_t stream);

}  // namespace flashbench::cuda::sm90
