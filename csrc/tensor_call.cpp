#include "tensor_call.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <stdexcept>

#include "attention.h"
#include "dlpack.h"
#include "torch_scratch.h"

namespace py = pybind11;

namespace flashbench {

namespace {

// Objects of torch, owned for the life of the process; `exchange` is null if torch lacks the API.
struct Torch {
    const dlpack::ExchangeApi* exchange = nullptr;
    PyObject* tensor_type = nullptr;
    PyObject* storage_type = nullptr;
    // Methods of the types, which no attribute of an object hides.
    PyObject* is_neg = nullptr;
    PyObject* storage_offset = nullptr;
    PyObject* untyped_storage = nullptr;
    PyObject* empty_like = nullptr;
    PyObject* contiguous_format = nullptr;
    PyObject* get_num_threads = nullptr;
    PyObject* is_grad_enabled = nullptr;
    PyObject* requires_grad = nullptr;  // a name
    PyObject* memory_format = nullptr;  // ("memory_format",)
    int64_t min_head_dim = 0;
    int64_t max_head_dim = 0;
    int64_t head_dim_step = 1;
};
Torch torch_objects;

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

// Whether an answer is False; clears any exception, because the Python side then judges.
bool is_false(PyObject* answer) {
    PyErr_Clear();
    Py_XDECREF(answer);
    return answer == Py_False;
}

// False for objects that only represent tensors, such as those of torch's tracing modes.
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

// Whether every element is inside the storage, which may have been resized.
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

bool describe(PyObject* object, dlpack::Tensor& tensor) {
    const Torch& torch = torch_objects;
    const bool unrecorded = is_false(PyObject_GetAttr(object, torch.requires_grad)) ||
                            is_false(PyObject_CallNoArgs(torch.is_grad_enabled));
    return unrecorded && describe_plain(object, tensor) && tensor.dimensions == 4;
}

bool alike(const dlpack::Tensor& a, const dlpack::Tensor& b) {
    return a.device.type == b.device.type && a.device.index == b.device.index &&
           a.dtype.code == b.dtype.code && a.dtype.bits == b.dtype.bits &&
           a.dtype.lanes == b.dtype.lanes;
}

bool find_dtype(const dlpack::DataType& dtype, Dtype& found) {
    if (dtype.lanes != 1) {
        return false;
    }
    if (dtype.code == dlpack::kFloat && dtype.bits == 32) {
        found = Dtype::fp32;
    } else if (dtype.code == dlpack::kFloat && dtype.bits == 16) {
        found = Dtype::fp16;
    } else if (dtype.code == dlpack::kBfloat && dtype.bits == 16) {
        found = Dtype::bf16;
    } else {
        return false;
    }
    return true;
}

const void* address_of(const dlpack::Tensor& tensor) {
    return static_cast<const char*>(tensor.data) + tensor.byte_offset;
}

Strides strides_of(const dlpack::Tensor& tensor) {
    return {tensor.strides[0], tensor.strides[1], tensor.strides[2], tensor.strides[3]};
}

// Fills in everything but the output; false if the shapes do not fit together.
bool find_problem(const dlpack::Tensor& q, const dlpack::Tensor& k, const dlpack::Tensor& v,
                  bool enable_gqa, Attention& problem) {
    const Torch& torch = torch_objects;
    const int64_t head_dim = q.shape[3];
    if (!alike(q, k) || !alike(q, v) || !find_dtype(q.dtype, problem.dtype) ||
        head_dim < torch.min_head_dim || head_dim > torch.max_head_dim ||
        head_dim % torch.head_dim_step != 0 || k.shape[0] != q.shape[0] ||
        k.shape[3] != head_dim) {
        return false;
    }
    for (int i = 0; i < 4; ++i) {
        if (v.shape[i] != k.shape[i]) {
            return false;
        }
    }
    const int64_t heads = q.shape[1];
    const int64_t kv_heads = k.shape[1];
    if (heads != kv_heads && (!enable_gqa || kv_heads == 0 || heads % kv_heads != 0)) {
        return false;
    }
    problem.q = address_of(q);
    problem.k = address_of(k);
    problem.v = address_of(v);
    problem.q_strides = strides_of(q);
    problem.k_strides = strides_of(k);
    problem.v_strides = strides_of(v);
    problem.batch = q.shape[0];
    problem.heads = heads;
    problem.kv_heads = kv_heads;
    problem.q_len = q.shape[2];
    problem.k_len = k.shape[2];
    problem.head_dim = head_dim;
    return true;
}

// NaN and infinity pass through, as in SDPA; a finite number that becomes infinite does not.
bool find_scale(PyObject* object, int64_t head_dim, float& scale) {
    if (object == Py_None) {
        scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
        return true;
    }
    if (!PyFloat_CheckExact(object)) {
        return false;
    }
    const double value = PyFloat_AS_DOUBLE(object);
    scale = static_cast<float>(value);
    return !(std::abs(value) > FLT_MAX && std::isfinite(value));
}

// A new reference: an uninitialised contiguous tensor like `q`, or null with a Python exception.
PyObject* new_output(PyObject* q) {
    const Torch& torch = torch_objects;
    PyObject* arguments[] = {q, torch.contiguous_format};
    return PyObject_Vectorcall(torch.empty_like, arguments, 1, torch.memory_format);
}

// Whether the kernels may write `object` as the output for `q`; describes it in `out`.
bool is_output_like(PyObject* object, const dlpack::Tensor& q, dlpack::Tensor& out) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != torch_objects.tensor_type) {
        return false;
    }
    if (torch_objects.exchange->describe(object, &out) != 0) {
        PyErr_Clear();
        return false;
    }
    if (out.dimensions != 4 || out.strides == nullptr || !alike(out, q) || !has_memory(out)) {
        return false;
    }
    int64_t contiguous = 1;
    for (int i = 3; i >= 0; --i) {
        if (out.shape[i] != q.shape[i] || (out.shape[i] > 1 && out.strides[i] != contiguous)) {
            return false;
        }
        contiguous *= std::max<int64_t>(out.shape[i], 1);
    }
    return true;
}

// Runs the problem on the device's backend; throws what that throws.
void compute(const Attention& problem, const dlpack::Device& device) {
    if (device.type == dlpack::kCpu) {
        const py::object threads =
            py::reinterpret_steal<py::object>(PyObject_CallNoArgs(torch_objects.get_num_threads));
        if (!threads) {
            throw py::error_already_set();
        }
        const int count = threads.cast<int>();
        const py::gil_scoped_release release;
        cpu::attention(problem, count);
        return;
    }
#ifdef FLASHBENCH_CUDA
    void* stream = nullptr;
    if (torch_objects.exchange->current_stream(device.type, device.index, &stream) != 0) {
        throw py::error_already_set();
    }
    cuda_attention(problem, stream);
#endif
}

bool is_usable(const dlpack::Device& device) {
#ifdef FLASHBENCH_CUDA
    if (device.type == dlpack::kCuda) {
        return cuda::is_current(device.index);
    }
#endif
    return device.type == dlpack::kCpu;
}

// A new reference to the output or to None; null with a Python exception.
PyObject* plain_attention_or_throw(PyObject* const* arguments) {
    PyObject* const q_object = arguments[0];
    PyObject* const causal = arguments[3];
    PyObject* const bottom_right = arguments[4];
    PyObject* const enable_gqa = arguments[6];
    dlpack::Tensor q, k, v, out;
    Attention problem;
    if (torch_objects.exchange == nullptr || (causal != Py_True && causal != Py_False) ||
        (bottom_right != Py_True && bottom_right != Py_False) ||
        (enable_gqa != Py_True && enable_gqa != Py_False) || !describe(q_object, q) ||
        !describe(arguments[1], k) || !describe(arguments[2], v) || !is_usable(q.device) ||
        !find_problem(q, k, v, enable_gqa == Py_True, problem) ||
        !find_scale(arguments[5], problem.head_dim, problem.scale) ||
        !is_in_storage(q_object, q) || !is_in_storage(arguments[1], k) ||
        !is_in_storage(arguments[2], v)) {
        return py::none().release().ptr();
    }
    problem.causal = causal == Py_True;
    problem.causal_offset = bottom_right == Py_True ? problem.k_len - problem.q_len : 0;
    py::object result = py::reinterpret_steal<py::object>(new_output(q_object));
    if (!result) {
        throw py::error_already_set();
    }
    // A replaced implementation of empty_like may have made something else.
    if (!is_output_like(result.ptr(), q, out)) {
        return py::none().release().ptr();
    }
    problem.out = const_cast<void*>(address_of(out));
    problem.out_strides = strides_of(out);
    try {
        compute(problem, q.device);
    } catch (const std::invalid_argument&) {
        return py::none().release().ptr();
    }
    return result.release().ptr();
}

PyObject* plain_attention(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 7) {
        PyErr_SetString(PyExc_TypeError, "plain_attention takes q, k, v, is_causal, bottom_right, "
                                         "scale and enable_gqa");
        return nullptr;
    }
    try {
        return plain_attention_or_throw(arguments);
    } catch (py::error_already_set& error) {
        error.restore();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
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

// Not through pybind11, whose dispatch of a call costs as much as the rest of this file.
PyMethodDef plain_attention_method = {
    "plain_attention", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(plain_attention)),
    METH_FASTCALL, "The attention of plain torch tensors, or None."};
PyMethodDef plain_memory_method = {"plain_memory", plain_memory, METH_O,
                                   "Address, strides and storage of a plain torch tensor, or None."};

}  // namespace

#ifdef FLASHBENCH_CUDA
void cuda_attention(const Attention& problem, void* stream) {
    TorchScratch scratch(torch_objects.exchange, {dlpack::kCuda, cuda::current_device()});
    cuda::attention(problem, [&](int64_t bytes) { return scratch.get(bytes); }, stream);
}
#endif

void add_tensor_call(py::module_& module) {
    module.def("bind_torch", &bind_torch);
    module.attr("plain_attention") = py::reinterpret_steal<py::object>(
        PyCFunction_NewEx(&plain_attention_method, nullptr, nullptr));
    module.attr("plain_memory") = py::reinterpret_steal<py::object>(
        PyCFunction_NewEx(&plain_memory_method, nullptr, nullptr));
}

}  // namespace flashbench
