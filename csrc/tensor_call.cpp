#include "tensor_call.h"

#include <stdexcept>

#include "attention.h"
#include "dlpack.h"
#include "plain_gradients.h"
#include "plain_problem.h"
#include "plain_tensor.h"
#include "torch_scratch.h"

namespace py = pybind11;

namespace flashbench {

namespace {

bool is_true(PyObject* answer) {
    PyErr_Clear();
    Py_XDECREF(answer);
    return answer == Py_True;
}

bool requires_grad(PyObject* tensor) {
    return !is_false(PyObject_GetAttr(tensor, torch_objects.requires_grad));
}

// Runs the problem on the device's backend; throws what that throws.
void compute(const Attention& problem, const dlpack::Device& device) {
    if (device.type == dlpack::kCpu) {
        const int threads = threads_of_torch();
        const py::gil_scoped_release release;
        cpu::attention(problem, threads);
        return;
    }
#ifdef FLASHBENCH_CUDA
    cuda_attention(problem, stream_of(device));
#endif
}

// A new reference to the output or to None.
PyObject* attention_or_throw(PyObject* const* arguments) {
    const Torch& torch = torch_objects;
    PyObject* const q_object = arguments[0];
    PyObject* const enable_gqa = arguments[6];
    dlpack::Tensor q, k, v, out;
    Attention problem;
    if (!is_flag(arguments[3]) || !is_flag(arguments[4]) || !is_flag(enable_gqa) ||
        !describe_plain(q_object, q) || !describe_plain(arguments[1], k) ||
        !describe_plain(arguments[2], v) || !is_usable(q.device) ||
        !find_problem(q, k, v, enable_gqa == Py_True, problem) ||
        !find_scoring(arguments[3], arguments[4], arguments[5], problem) ||
        !is_in_storage(q_object, q) || !is_in_storage(arguments[1], k) ||
        !is_in_storage(arguments[2], v)) {
        return py::none().release().ptr();
    }
    const bool recorded =
        (requires_grad(q_object) || requires_grad(arguments[1]) || requires_grad(arguments[2])) &&
        !is_false(PyObject_CallNoArgs(torch.is_grad_enabled)) &&
        !is_true(PyObject_CallNoArgs(torch.is_inference_mode_enabled));
    if (recorded && is_true(PyObject_CallNoArgs(torch.are_transforms_active))) {
        return py::none().release().ptr();
    }
    py::object result = new_like(q_object, q, out);
    if (!result) {
        return py::none().release().ptr();
    }
    problem.out = const_cast<void*>(address_of(out));
    problem.out_strides = strides_of(out);
    py::object lse;
    if (recorded) {
        dlpack::Tensor of_lse;
        lse = new_lse(q_object, problem, of_lse);
        if (!lse) {
            return py::none().release().ptr();
        }
        problem.lse = static_cast<float*>(const_cast<void*>(address_of(of_lse)));
        problem.lse_rows = problem.q_len;
    }
    try {
        compute(problem, q.device);
    } catch (const std::invalid_argument&) {
        return py::none().release().ptr();
    }
    if (!recorded) {
        return result.release().ptr();
    }
    const py::object kept = py::reinterpret_steal<py::object>(
        PyTuple_Pack(5, result.ptr(), lse.ptr(), arguments[3], arguments[4], arguments[5]));
    if (!kept) {
        throw py::error_already_set();
    }
    PyObject* const recording[] = {q_object, arguments[1], arguments[2], kept.ptr()};
    PyObject* const output = PyObject_Vectorcall(torch.record, recording, 4, nullptr);
    if (output == nullptr) {
        throw py::error_already_set();
    }
    return output;
}

PyObject* plain_attention(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 7) {
        PyErr_SetString(PyExc_TypeError, "plain_attention takes q, k, v, is_causal, bottom_right, "
                                         "scale and enable_gqa");
        return nullptr;
    }
    return with_exceptions_of_python(attention_or_throw, arguments);
}

// Not through pybind11, whose dispatch of a call costs as much as the rest of this file.
PyCFunction fast(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"plain_attention", fast(plain_attention), METH_FASTCALL,
     "The attention of plain torch tensors, or None."},
    {"plain_gradients", fast(plain_gradients), METH_FASTCALL,
     "The gradients of attention of plain torch tensors, or None."},
    {"plain_memory", plain_memory, METH_O,
     "Address, strides and storage of a plain torch tensor, or None."},
};

}  // namespace

#ifdef FLASHBENCH_CUDA
void cuda_attention(const Attention& problem, void* stream) {
    TorchScratch scratch(torch_objects.exchange, {dlpack::kCuda, cuda::current_device()});
    cuda::attention(problem, [&](int64_t bytes) { return scratch.get(bytes); }, stream);
}
#endif

void add_tensor_call(py::module_& module) {
    module.def("bind_torch", &bind_torch);
    for (PyMethodDef& method : methods) {
        module.attr(method.ml_name) =
            py::reinterpret_steal<py::object>(PyCFunction_NewEx(&method, nullptr, nullptr));
    }
}

}  // namespace flashbench
