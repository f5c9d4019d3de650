// flashbench.attention of plain torch tensors in one call from Python.
#pragma once

#include <pybind11/pybind11.h>

#include "attention.h"

namespace flashbench {

// Adds to the module:
//
//   bind_torch(Tensor, UntypedStorage, empty_like, contiguous_format, get_num_threads, min_head_dim,
//              max_head_dim, head_dim_step): hands over what of torch the calls below need.
//   plain_attention(q, k, v, is_causal, bottom_right, scale, enable_gqa): the attention of q, k and v,
//       with the causal mask at the top left or at the bottom right, in a new tensor; or None, with
//       nothing done, unless they are plain: torch.Tensor itself and no subclass, dense, with every
//       element in its storage, on one supported device that is the current one, of one supported
//       dtype, four dimensions that fit each other, without need of gradients. None also where torch
//       has no exchange API, and before bind_torch.
//       flashbench/torch_attention.py then finds out what is wrong, or computes it all the same.
//       Raises RuntimeError on a CUDA error.
void add_tensor_call(pybind11::module_& module);

#ifdef FLASHBENCH_CUDA
// cuda::attention on the current device, with scratch memory of torch's.
void cuda_attention(const Attention& problem, void* stream);
#endif

}  // namespace flashbench
