#include "plain_tensor.h"

namespace py = pybind11;

namespace flashbench {

Torch torch_objects;

namespace {

const dlpack::ExchangeApi* exchange_of(const py::object& tensor_type) {
    const py::object capsule = py::getattr(tensor_type, "__dlpack_c_exchange_api__", py::none());
    if (!PyCapsule_IsValid(capsule.ptr(), dlpack::kCapsuleName)) {
        return nullptr;
    }
    const auto* api = static_cast<const dlpack::ExchangeApi*>(
        PyCapsule_GetPointer(capsule.ptr(), dlpack::kCapsuleName));
    while (api != nullptr && api->version.major > dlpack::kMajorVersion) {
        api = api->previous;
    }
    const bool usable = api != nullptr && api->version.major == dlpack::kMajorVersion &&
                        api->describe != nullptr && api->current_stream != nullptr;
    return usable ? api : nullptr;
}

// The size in bytes of `object`'s storage; negative if only the Python side can judge.
int64_t storage_bytes(PyObject* object) {
    const Torch& torch = torch_objects;
    const py::object storage =
        py::reinterpret_steal<py::object>(PyObject_CallOneArg(torch.untyped_storage, object));
    int64_t bytes = -1;
    // A subclass can report any length. For torch's own type, len is cheaper than nbytes().
    if (storage && reinterpret_cast<PyObject*>(Py_TYPE(storage.ptr())) == torch.storage_type) {
        bytes = PyObject_Size(storage.ptr());
    }
    PyErr_Clear();
    return bytes;
}

}  // namespace

void bind_torch(const py::object& tensor_type, const py::object& storage_type,
                const py::object& empty_like, const py::object& contiguous_format,
                const py::object& get_num_threads, const py::object& is_grad_enabled,
                int64_t min_head_dim, int64_t max_head_dim, int64_t head_dim_step) {
    Torch& torch = torch_objects;
    torch.exchange = exchange_of(tensor_type);
    torch.tensor_type = py::object(tensor_type).release().ptr();
    torch.storage_type = py::object(storage_type).release().ptr();
    torch.is_neg = py::getattr(tensor_type, "is_neg").release().ptr();
    torch.storage_offset = py::getattr(tensor_type, "storage_offset").release().ptr();
    torch.untyped_storage = py::getattr(tensor_type, "untyped_storage").release().ptr();
    torch.empty_like = py::object(empty_like).release().ptr();
    torch.contiguous_format = py::object(contiguous_format).release().ptr();
    torch.get_num_threads = py::object(get_num_threads).release().ptr();
    torch.is_grad_enabled = py::object(is_grad_enabled).release().ptr();
    torch.requires_grad = py::str("requires_grad").release().ptr();
    torch.memory_format = py::make_tuple("memory_format").release().ptr();
    torch.min_head_dim = min_head_dim;
    torch.max_head_dim = max_head_dim;
    torch.head_dim_step = head_dim_step;
}

bool is_false(PyObject* answer) {
    PyErr_Clear();
    Py_XDECREF(answer);
    return answer == Py_False;
}

bool has_memory(const dlpack::Tensor& tensor) {
    if (tensor.data != nullptr) {
        return true;
    }
    for (int i = 0; i < tensor.dimensions; ++i) {
        if (tensor.shape[i] == 0) {
            return true;
        }
    }
    return false;
}

bool is_in_storage(PyObject* object, const dlpack::Tensor& tensor) {
    int64_t last = 0;
    for (int i = 0; i < tensor.dimensions; ++i) {
        int64_t distance = 0;
        if (tensor.shape[i] == 0) {
            return true;
        }
        if (__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &distance) ||
            __builtin_add_overflow(last, distance, &last)) {
            return false;
        }
    }
    const py::object offset = py::reinterpret_steal<py::object>(
        PyObject_CallOneArg(torch_objects.storage_offset, object));
    const int64_t first = offset ? PyLong_AsLongLong(offset.ptr()) : -1;
    if (first < 0) {
        PyErr_Clear();
        return false;
    }
    // In elements, rounded down, because bytes could overflow.
    const int64_t held = storage_bytes(object) / (tensor.dtype.bits / 8);
    return last < held && first < held - last;
}

bool describe_plain(PyObject* object, dlpack::Tensor& tensor) {
    const Torch& torch = torch_objects;
    if (torch.exchange == nullptr ||
        reinterpret_cast<PyObject*>(Py_TYPE(object)) != torch.tensor_type ||
        !is_false(PyObject_CallOneArg(torch.is_neg, object))) {
        return false;
    }
    if (torch.exchange->describe(object, &tensor) != 0) {
        PyErr_Clear();
        return false;
    }
    return tensor.strides != nullptr && has_memory(tensor);
}

PyObject* plain_memory(PyObject*, PyObject* object) {
    dlpack::Tensor tensor;
    if (!describe_plain(object, tensor) || tensor.dimensions == 0 || tensor.dtype.bits % 8 != 0 ||
        !is_in_storage(object, tensor)) {
        Py_RETURN_NONE;
    }
    const int64_t bytes = storage_bytes(object);
    const py::object offset = py::reinterpret_steal<py::object>(
        PyObject_CallOneArg(torch_objects.storage_offset, object));
    const int64_t first = offset ? PyLong_AsLongLong(offset.ptr()) : -1;
    const py::object strides = py::reinterpret_steal<py::object>(PyTuple_New(tensor.dimensions));
    if (bytes < 0 || first < 0 || !strides) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    for (int i = 0; i < tensor.dimensions; ++i) {
        PyTuple_SET_ITEM(strides.ptr(), i, PyLong_FromLongLong(tensor.strides[i]));
    }
    unsigned long long address = 0, begin = 0, end = 0;  // of a tensor without elements
    if (tensor.data != nullptr) {
        address = reinterpret_cast<uintptr_t>(address_of(tensor));
        begin = address - static_cast<uint64_t>(first) * (tensor.dtype.bits / 8);
        end = begin + static_cast<uint64_t>(bytes);
    }
    return Py_BuildValue("KOKK", address, strides.ptr(), begin, end);
}

}  // namespace flashbench
