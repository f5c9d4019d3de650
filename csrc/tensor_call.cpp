#include "tensor_call.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <stdexcept>

#include "attention.h"
#include "dlpack.h"
#include "plain_tensor.h"
#include "torch_scratch.h"

namespace py = pybind11;

namespace flashbench {

namespace {

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
