// torch's tensors as the extension sees them: plain ones, by torch's DLPack exchange API.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

#include "dlpack.h"

namespace flashbench {

// Objects of torch, owned for the life of the process; `exchange` is null if torch lacks the API.
struct Torch {
    const dlpack::ExchangeApi* exchange = nullptr;
    PyObject* tensor_type = nullptr;
    PyObject* storage_type = nullptr;
    // Methods of the types, which no attribute of an object hides.
    PyObject* is_neg = nullptr;
    PyObject* storage_offset = nullptr;
    PyObject* untyped_storage = nullptr;
    PyObject* new_empty = nullptr;
    PyObject* empty_like = nullptr;
    PyObject* contiguous_format = nullptr;
    PyObject* float32 = nullptr;
    PyObject* get_num_threads = nullptr;
    PyObject* is_grad_enabled = nullptr;
    PyObject* is_inference_mode_enabled = nullptr;
    PyObject* are_deterministic_algorithms_enabled = nullptr;
    PyObject* are_transforms_active = nullptr;
    PyObject* record = nullptr;
    PyObject* requires_grad = nullptr;  // a name
    PyObject* memory_format = nullptr;  // ("memory_format",)
    PyObject* dtype = nullptr;          // ("dtype",)
    int64_t min_head_dim = 0;
    int64_t max_head_dim = 0;
    int64_t head_dim_step = 1;
};
extern Torch torch_objects;

// Fills in torch_objects by name (tensor_call.h).
void bind_torch(const pybind11::kwargs& parts);

// Describes a torch.Tensor itself, no subclass, that is dense, not lazily negated and has memory; false
// for others.
bool describe_plain(PyObject* object, dlpack::Tensor& tensor);

// False for objects that only represent tensors, such as those of torch's tracing modes.
bool has_memory(const dlpack::Tensor& tensor);

// Whether every element is inside the storage, which may have been resized.
bool is_in_storage(PyObject* object, const dlpack::Tensor& tensor);

// Whether an answer is False; clears any exception, because the Python side then judges.
bool is_false(PyObject* answer);

inline const void* address_of(const dlpack::Tensor& tensor) {
    return static_cast<const char*>(tensor.data) + tensor.byte_offset;
}

// The method plain_memory of the module (tensor_call.h).
PyObject* plain_memory(PyObject*, PyObject* object);

}  // namespace flashbench
