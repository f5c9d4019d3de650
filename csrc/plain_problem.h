// Attention problems of plain torch tensors, and new tensors for their results.
#pragma once

#include <pybind11/pybind11.h>

#include "attention.h"
#include "dlpack.h"

namespace flashbench {

bool is_flag(PyObject* object);

// Whether the device is one that kernels were compiled for, and the current one.
bool is_usable(const dlpack::Device& device);

// Whether shape, dtype and device are equal.
bool are_alike(const dlpack::Tensor& a, const dlpack::Tensor& b);

Strides strides_of(const dlpack::Tensor& tensor);

// Fills in q, k, v, their shapes and dtype; false if they are not supported or do not fit together.
bool find_problem(const dlpack::Tensor& q, const dlpack::Tensor& k, const dlpack::Tensor& v,
                  bool enable_gqa, Attention& problem);

// Fills in the mask and the scale, by flags and a float or None; false if Python has to judge the scale.
// Needs the problem's shapes.
bool find_scoring(PyObject* causal, PyObject* bottom_right, PyObject* scale, Attention& problem);

// An uninitialised tensor of the shape, dtype and device of `like`, and dense in its order of dimensions
// if that keeps head vectors contiguous, as SDPA's outputs and gradients are; else contiguous. Describes
// it in `made`. Null without an exception if torch made something else, because its empty_like was
// replaced. Throws what torch throws.
pybind11::object new_like(PyObject* like, const dlpack::Tensor& described, dlpack::Tensor& made);

// An uninitialised contiguous fp32 tensor, (batch, heads, q_len), on q's device; null as above.
pybind11::object new_lse(PyObject* q, const Attention& problem, dlpack::Tensor& made);

// Whether the tensor is as new_lse makes it.
bool is_lse_of(const dlpack::Tensor& tensor, const dlpack::Tensor& q);

// torch's threads for work on a CPU. Throws what torch throws.
int threads_of_torch();

// The current stream of a device. Throws what torch throws.
void* stream_of(const dlpack::Device& device);

// Calls `compute`, which returns a new reference or throws; null with a Python exception if it does.
PyObject* with_exceptions_of_python(PyObject* (*compute)(PyObject* const*),
                                    PyObject* const* arguments);

}  // namespace flashbench
