// flashbench.attention of plain torch tensors in one call from Python.
#pragma once

#include <pybind11/pybind11.h>

#include "attention.h"

namespace flashbench {

// Adds to the module:
//
//   bind_torch(**parts): passes the parts of torch that the calls below need, each by its name (Tensor,
//       empty_like, ...; plain_tensor.cpp lists them), the limits of head dims, and `record`.
//   plain_attention(q, k, v, is_causal, bottom_right, scale, enable_gqa): attention of q, k and v, with
//       the causal mask at the top left or bottom right, in a new tensor. Returns None, having done
//       nothing, unless the tensors are plain: torch.Tensor itself and no subclass, dense, with every
//       element in its storage, on the current device, of one supported dtype, with four dimensions
//       that fit together. Also returns None if torch has no exchange API, before bind_torch, and if
//       gradients are to be recorded for torch.func. kernels/torch_attention.py then explains the problem
//       or computes it. Raises RuntimeError on a CUDA error.
//       If torch is to record gradients, returns record(q, k, v, (output, lse, is_causal, bottom_right,
//       scale)) (kernels/gradients.py).
//   plain_gradients(q, k, v, out, lse, dout, wanted, is_causal, bottom_right, scale): (dq, dk, dv), new
//       tensors, or None for those that the tuple `wanted` has no True for. Returns None, having done
//       nothing, as plain_attention does, and for what kernels/cuda_gradients.py has to prepare.
//   Outputs and gradients have the order of dimensions of q, and of what they are the gradients of
//   (plain_problem.h).
//   plain_memory(x): (address, strides, begin, end) of a plain dense tensor whose elements are all in its
//       storage, which reaches from `begin` to `end`; strides are in elements. Returns None if only
//       kernels/tensor_memory.py can judge.
void add_tensor_call(pybind11::module_& module);

#ifdef FLASHBENCH_CUDA
// cuda::attention on the current device, with scratch memory from torch.
void cuda_attention(const Attention& problem, void* stream);
#endif

}  // namespace flashbench
