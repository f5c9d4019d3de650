// flashbench.attention of plain torch tensors in one call from Python.
#pragma once

#include <pybind11/pybind11.h>

#include "attention.h"

namespace flashbench {

// Adds to the module:
//
//   bind_torch(Tensor, UntypedStorage, empty_like, contiguous_format, get_num_threads,
//              is_grad_enabled, min_head_dim, max_head_dim, head_dim_step): passes the parts of torch
//              that the calls below need.
//   plain_attention(q, k, v, is_causal, bottom_right, scale, enable_gqa): attention of q, k and v, with
//       the causal mask at the top left or bottom right, in a new tensor. Returns None, having done
//       nothing, unless the tensors are plain: torch.Tensor itself and no subclass, dense, with every
//       element in its storage, on the current device, of one supported dtype, with four dimensions
//       that fit together, and without gradients to record. Also returns None if torch has no exchange
//       API, and before bind_torch. kernels/torch_attention.py then explains the problem or computes
//       it. Raises RuntimeError on a CUDA error.
//   plain_memory(x): (address, strides, begin, end) of a plain dense tensor whose elements are all in its
//       storage, which reaches from `begin` to `end`; strides are in elements. Returns None if only
//       kernels/tensor_memory.py can judge.
void add_tensor_call(pybind11::module_& module);

#ifdef FLASHBENCH_CUDA
// cuda::attention on the current device, with scratch memory from torch.
void cuda_attention(const Attention& problem, void* stream);
#endif

}  // namespace flashbench
