#include "plain_problem.h"

#include <cfloat>
#include <cmath>
#include <exception>
#include <utility>

#include "plain_tensor.h"

namespace py = pybind11;

namespace flashbench {

namespace {

bool same_kind(const dlpack::Tensor& a, const dlpack::Tensor& b) {
    return a.device.type == b.device.type && a.device.index == b.device.index &&
           a.dtype.code == b.dtype.code && a.dtype.bits == b.dtype.bits &&
           a.dtype.lanes == b.dtype.lanes;
}

bool is_fp32(const dlpack::DataType& dtype) {
    return dtype.lanes == 1 && dtype.code == dlpack::kFloat && dtype.bits == 32;
}

bool find_dtype(const dlpack::DataType& dtype, Dtype& found) {
    if (is_fp32(dtype)) {
        found = Dtype::fp32;
    } else if (dtype.lanes == 1 && dtype.code == dlpack::kFloat && dtype.bits == 16) {
        found = Dtype::fp16;
    } else if (dtype.lanes == 1 && dtype.code == dlpack::kBfloat && dtype.bits == 16) {
        found = Dtype::bf16;
    } else {
        return false;
    }
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

// Whether the elements, in some order of the dimensions, fill memory without gaps and do not overlap.
bool is_dense(const dlpack::Tensor& tensor) {
    std::pair<int64_t, int64_t> inner_first[4];  // stride and size
    int count = 0;
    for (int i = tensor.dimensions - 1; i >= 0; --i) {
        if (tensor.shape[i] == 0) {
            return true;
        }
        if (tensor.shape[i] == 1) {
            continue;
        }
        int place = count++;
        for (; place > 0 && inner_first[place - 1].first > tensor.strides[i]; --place) {
            inner_first[place] = inner_first[place - 1];
        }
        inner_first[place] = {tensor.strides[i], tensor.shape[i]};
    }
    int64_t stride = 1;
    for (int i = 0; i < count; ++i) {
        if (inner_first[i].first != stride) {
            return false;
        }
        stride *= inner_first[i].second;
    }
    return true;
}

// Whether `made` is a plain tensor that torch's functions for new tensors may return; describes it.
bool is_plain_and_new(const py::object& made, dlpack::Tensor& tensor) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())) != torch_objects.tensor_type) {
        return false;
    }
    if (torch_objects.exchange->describe(made.ptr(), &tensor) != 0) {
        PyErr_Clear();
        return false;
    }
    return tensor.strides != nullptr && has_memory(tensor);
}

py::object checked(PyObject* answer) {
    if (answer == nullptr) {
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(answer);
}

}  // namespace

bool is_flag(PyObject* object) { return object == Py_True || object == Py_False; }

bool is_usable(const dlpack::Device& device) {
#ifdef FLASHBENCH_CUDA
    if (device.type == dlpack::kCuda) {
        return cuda::is_current(device.index);
    }
#endif
    return device.type == dlpack::kCpu;
}

bool are_alike(const dlpack::Tensor& a, const dlpack::Tensor& b) {
    if (!same_kind(a, b) || a.dimensions != b.dimensions) {
        return false;
    }
    for (int i = 0; i < a.dimensions; ++i) {
        if (a.shape[i] != b.shape[i]) {
            return false;
        }
    }
    return true;
}

Strides strides_of(const dlpack::Tensor& tensor) {
    return {tensor.strides[0], tensor.strides[1], tensor.strides[2], tensor.strides[3]};
}

bool find_problem(const dlpack::Tensor& q, const dlpack::Tensor& k, const dlpack::Tensor& v,
                  bool enable_gqa, Attention& problem) {
    const Torch& torch = torch_objects;
    if (q.dimensions != 4 || k.dimensions != 4 || !same_kind(q, k) || !are_alike(k, v)) {
        return false;
    }
    const int64_t head_dim = q.shape[3];
    if (!find_dtype(q.dtype, problem.dtype) || head_dim < torch.min_head_dim ||
        head_dim > torch.max_head_dim || head_dim % torch.head_dim_step != 0 ||
        k.shape[0] != q.shape[0] || k.shape[3] != head_dim) {
        return false;
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

bool find_scoring(PyObject* causal, PyObject* bottom_right, PyObject* scale, Attention& problem) {
    problem.causal = causal == Py_True;
    problem.causal_offset = bottom_right == Py_True ? problem.k_len - problem.q_len : 0;
    return find_scale(scale, problem.head_dim, problem.scale);
}

py::object new_like(PyObject* like, const dlpack::Tensor& described, dlpack::Tensor& made) {
    const Torch& torch = torch_objects;
    PyObject* arguments[] = {like, torch.contiguous_format};
    const py::object tensor =
        checked(described.strides[3] == 1
                    ? PyObject_CallOneArg(torch.empty_like, like)
                    : PyObject_Vectorcall(torch.empty_like, arguments, 1, torch.memory_format));
    const bool usable =
        is_plain_and_new(tensor, made) && are_alike(made, described) && is_dense(made);
    return usable ? tensor : py::object();
}

py::object new_lse(PyObject* q, const Attention& problem, dlpack::Tensor& made) {
    const Torch& torch = torch_objects;
    const py::object shape =
        checked(Py_BuildValue("LLL", static_cast<long long>(problem.batch),
                              static_cast<long long>(problem.heads),
                              static_cast<long long>(problem.q_len)));
    PyObject* arguments[] = {q, shape.ptr(), torch.float32};
    const py::object tensor = checked(PyObject_Vectorcall(torch.new_empty, arguments, 2, torch.dtype));
    dlpack::Tensor of_q;
    const bool usable = is_plain_and_new(tensor, made) && torch.exchange->describe(q, &of_q) == 0 &&
                        is_lse_of(made, of_q);
    return usable ? tensor : py::object();
}

bool is_lse_of(const dlpack::Tensor& tensor, const dlpack::Tensor& q) {
    int64_t contiguous = 1;
    if (tensor.dimensions != 3 || !is_fp32(tensor.dtype) ||
        tensor.device.type != q.device.type || tensor.device.index != q.device.index) {
        return false;
    }
    for (int i = 2; i >= 0; --i) {
        if (tensor.shape[i] != q.shape[i] ||
            (tensor.shape[i] > 1 && tensor.strides[i] != contiguous)) {
            return false;
        }
        contiguous *= tensor.shape[i];
    }
    return true;
}

int threads_of_torch() {
    return checked(PyObject_CallNoArgs(torch_objects.get_num_threads)).cast<int>();
}

void* stream_of(const dlpack::Device& device) {
    void* stream = nullptr;
    if (torch_objects.exchange->current_stream(device.type, device.index, &stream) != 0) {
        throw py::error_already_set();
    }
    return stream;
}

PyObject* with_exceptions_of_python(PyObject* (*compute)(PyObject* const*),
                                    PyObject* const* arguments) {
    try {
        return compute(arguments);
    } catch (py::error_already_set& error) {
        error.restore();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

}  // namespace flashbench
