// The gradients of attention of plain torch tensors (tensor_call.h) in one call from Python.
#pragma once

#include <pybind11/pybind11.h>

namespace flashbench {

// The method plain_gradients of the module (tensor_call.h).
PyObject* plain_gradients(PyObject*, PyObject* const* arguments, Py_ssize_t count);

}  // namespace flashbench
