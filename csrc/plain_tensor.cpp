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

void bind_torch(const py::kwargs& parts) {
    Torch& torch = torch_objects;
    const auto own = [](py::object object) { return object.release().ptr(); };
    const py::object tensor_type = parts["Tensor"];
    torch.exchange = exchange_of(tensor_type);
    torch.tensor_type = own(tensor_type);
    torch.storage_type = own(parts["UntypedStorage"]);
    torch.is_neg = own(tensor_type.attr("is_neg"));
    torch.storage_offset = own(tensor_type.attr("storage_offset"));
    torch.untyped_storage = own(tensor_type.attr("untyped_storage"));
    torch.new_empty = own(tensor_type.attr("new_empty"));
    torch.empty_like = own(parts["empty_like"]);
    torch.contiguous_format = own(parts["contiguous_format"]);
    torch.float32 = own(parts["float32"]);
    torch.get_num_threads = own(parts["get_num_threads"]);
    torch.is_grad_enabled = own(parts["is_grad_enabled"]);
    torch.is_inference_mode_enabled = own(parts["is_inference_mode_enabled"]);
    torch.are_deterministic_algorithms_enabled =
        own(parts["are_deterministic_algorithms_enabled"]);
    torch.are_transforms_active = own(parts["are_transforms_active"]);
    torch.record = own(parts["record"]);
    torch.requires_grad = own(py::str("requires_grad"));
    torch.memory_format = own(py::make_tuple("memory_format"));
    torch.dtype = own(py::make_tuple("dtype"));
    torch.min_head_dim = parts["min_head_dim"].cast<int64_t>();
    torch.max_head_dim = parts["max_head_dim"].cast<int64_t>();
    torch.head_dim_step = parts["head_dim_step"].cast<int64_t>();
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
