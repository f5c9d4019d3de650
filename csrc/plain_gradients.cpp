#include "plain_gradients.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>

#include "attention.h"
#include "dlpack.h"
#include "plain_problem.h"
#include "plain_tensor.h"
#include "torch_scratch.h"

namespace py = pybind11;

namespace flashbench {

namespace {

using Tensors = std::array<dlpack::Tensor, 6>;  // q, k, v, out, lse, dout
constexpr int kGradients = 3;

#ifdef FLASHBENCH_CUDA
// Whether the gradients' kernels read the tensor in place: contiguous head vectors, addresses and positive
// strides in chunks of 16 bytes.
bool is_readable(const dlpack::Tensor& tensor) {
    const int64_t chunk = 16 / (tensor.dtype.bits / 8);
    for (int i = 0; i < 3; ++i) {
        if (tensor.shape[i] != 1 && (tensor.strides[i] <= 0 || tensor.strides[i] % chunk != 0)) {
            return false;
        }
    }
    return tensor.strides[3] == 1 && reinterpret_cast<uintptr_t>(address_of(tensor)) % 16 == 0;
}

// What kernels/cuda_gradients.py leaves to the kernels.
bool is_for_kernels(const AttentionBackward& problem, const Tensors& tensors) {
    const Attention& forward = problem.forward;
    return forward.batch > 0 && forward.heads > 0 && forward.q_len > 0 && forward.k_len > 0 &&
           !(forward.causal && forward.causal_offset < 0) && forward.scale > 0.0f &&
           std::isfinite(forward.scale) && is_readable(tensors[0]) && is_readable(tensors[1]) &&
           is_readable(tensors[2]) && is_readable(tensors[5]);
}
#endif

// Runs the problem on the device's backend; false if there is no scratch memory. Throws what that throws.
bool compute(const AttentionBackward& problem, const dlpack::Device& device) {
    if (device.type == dlpack::kCpu) {
        const int threads = threads_of_torch();
        const py::gil_scoped_release release;
        cpu::attention_backward(problem, threads);
        return true;
    }
#ifdef FLASHBENCH_CUDA
    TorchScratch scratch(torch_objects.exchange, device);
    void* const memory = scratch.get(cuda::attention_backward_scratch(problem));
    if (memory == nullptr) {
        return false;
    }
    cuda::attention_backward(problem, memory, stream_of(device));
    return true;
#else
    return false;
#endif
}

// Fills in everything but the gradients; false if Python has to judge.
bool find_forward(PyObject* const* arguments, Tensors& tensors, AttentionBackward& problem) {
    for (size_t i = 0; i < tensors.size(); ++i) {
        if (!describe_plain(arguments[i], tensors[i]) || !is_in_storage(arguments[i], tensors[i])) {
            return false;
        }
    }
    const auto& [q, k, v, out, lse, dout] = tensors;
    Attention& forward = problem.forward;
    if (!is_usable(q.device) || !find_problem(q, k, v, true, forward) || !are_alike(out, q) ||
        !are_alike(dout, q) || !is_lse_of(lse, q) || !is_flag(arguments[7]) ||
        !is_flag(arguments[8]) ||
        !find_scoring(arguments[7], arguments[8], arguments[9], forward)) {
        return false;
    }
    forward.out = const_cast<void*>(address_of(out));
    forward.out_strides = strides_of(out);
    forward.lse = static_cast<float*>(const_cast<void*>(address_of(lse)));
    forward.lse_rows = forward.q_len;
    problem.dout = address_of(dout);
    problem.dout_strides = strides_of(dout);
    problem.deterministic =
        !is_false(PyObject_CallNoArgs(torch_objects.are_deterministic_algorithms_enabled));
#ifdef FLASHBENCH_CUDA
    return q.device.type == dlpack::kCpu || is_for_kernels(problem, tensors);
#else
    return true;
#endif
}

// A new reference to (dq, dk, dv) or to None.
PyObject* gradients_or_throw(PyObject* const* arguments) {
    PyObject* const wanted = arguments[6];
    Tensors tensors;
    AttentionBackward problem{};
    if (!PyTuple_Check(wanted) || PyTuple_GET_SIZE(wanted) < kGradients ||
        !find_forward(arguments, tensors, problem)) {
        return py::none().release().ptr();
    }
    py::object gradients[kGradients];
    void** const addresses[] = {&problem.dq, &problem.dk, &problem.dv};
    Strides* const strides[] = {&problem.dq_strides, &problem.dk_strides, &problem.dv_strides};
    const auto is_wanted = [wanted](int i) { return PyTuple_GET_ITEM(wanted, i) == Py_True; };
    for (int i = 0; i < kGradients; ++i) {
        // The kernels of CUDA devices compute all three.
        if (!is_wanted(i) && tensors[i].device.type == dlpack::kCpu) {
            continue;
        }
        dlpack::Tensor made;
        gradients[i] = new_like(arguments[i], tensors[i], made);
        if (!gradients[i]) {
            return py::none().release().ptr();
        }
        *addresses[i] = const_cast<void*>(address_of(made));
        *strides[i] = strides_of(made);
    }
    try {
        if (!compute(problem, tensors[0].device)) {
            return py::none().release().ptr();
        }
    } catch (const std::invalid_argument&) {
        return py::none().release().ptr();
    }
    const auto answer = [&](int i) { return is_wanted(i) ? gradients[i].ptr() : Py_None; };
    return PyTuple_Pack(kGradients, answer(0), answer(1), answer(2));
}

}  // namespace

PyObject* plain_gradients(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
    if (count != 10) {
        PyErr_SetString(PyExc_TypeError, "plain_gradients takes q, k, v, out, lse, dout, wanted, "
                                         "is_causal, bottom_right and scale");
        return nullptr;
    }
    return with_exceptions_of_python(gradients_or_throw, arguments);
}

}  // namespace flashbench
