// The Python module flashbench._C.
//
// Tensors arrive as addresses, shapes and strides checked by kernels/torch_attention.py, or, if
// plain, directly (tensor_call.h). No class is bound, so two builds of this module can be loaded side
// by side in one process.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>

#include "attention.h"
#include "build_info.h"
#include "tensor_call.h"

namespace py = pybind11;
using flashbench::Attention;
using flashbench::AttentionBackward;
using flashbench::Dtype;
using flashbench::Strides;

namespace {

using Four = std::array<int64_t, 4>;
using Six = std::array<int64_t, 6>;
using Seven = std::array<int64_t, 7>;
using NineAddresses = std::array<uintptr_t, 9>;
using EightStrides = std::array<Four, 8>;

Dtype dtype_of(int code) {
    if (code < 0 || code > static_cast<int>(Dtype::bf16)) {
        throw std::invalid_argument("dtype: the code " + std::to_string(code) + " is unknown");
    }
    return static_cast<Dtype>(code);
}

Strides strides_of(const Four& s) { return {s[0], s[1], s[2], s[3]}; }

// shape: batch, heads, kv heads, query length, key length, head dim.
// lse: contiguous, or 0 for none.
Attention problem(uintptr_t q, uintptr_t k, uintptr_t v, uintptr_t out, uintptr_t lse,
                  const Six& shape, const Four& q_strides, const Four& k_strides, const Four& v_strides,
                  const Four& out_strides, float scale, bool causal, int64_t causal_offset,
                  int dtype) {
    Attention a;
    a.q = reinterpret_cast<const void*>(q);
    a.k = reinterpret_cast<const void*>(k);
    a.v = reinterpret_cast<const void*>(v);
    a.out = reinterpret_cast<void*>(out);
    a.q_strides = strides_of(q_strides);
    a.k_strides = strides_of(k_strides);
    a.v_strides = strides_of(v_strides);
    a.out_strides = strides_of(out_strides);
    a.batch = shape[0];
    a.heads = shape[1];
    a.kv_heads = shape[2];
    a.q_len = shape[3];
    a.k_len = shape[4];
    a.head_dim = shape[5];
    a.scale = scale;
    a.causal = causal;
    a.causal_offset = causal_offset;
    a.dtype = dtype_of(dtype);
    a.lse = reinterpret_cast<float*>(lse);
    a.lse_rows = a.q_len;
    return a;
}

// addresses: q, k, v, out, lse, dout, dq, dk, dv; strides: the same without lse.
AttentionBackward backward_problem(const NineAddresses& addresses, const Six& shape,
                                   const EightStrides& strides, float scale, bool causal,
                                   int64_t causal_offset, int dtype, bool deterministic) {
    AttentionBackward a;
    a.forward = problem(addresses[0], addresses[1], addresses[2], addresses[3], addresses[4], shape,
                        strides[0], strides[1], strides[2], strides[3], scale, causal,
                        causal_offset, dtype);
    a.dout = reinterpret_cast<const void*>(addresses[5]);
    a.dq = reinterpret_cast<void*>(addresses[6]);
    a.dk = reinterpret_cast<void*>(addresses[7]);
    a.dv = reinterpret_cast<void*>(addresses[8]);
    a.dout_strides = strides_of(strides[4]);
    a.dq_strides = strides_of(strides[5]);
    a.dk_strides = strides_of(strides[6]);
    a.dv_strides = strides_of(strides[7]);
    a.deterministic = deterministic;
    return a;
}

#ifdef FLASHBENCH_CUDA
// shape: batch, heads, kv heads, query length, key length, width, head dim.
void cuda_attention_e4m3(uintptr_t q, uintptr_t k, uintptr_t v, uintptr_t q_scale,
                         uintptr_t k_scale, uintptr_t v_scale, uintptr_t out, const Seven& shape,
                         float scale, bool causal, int64_t causal_offset, int out_dtype,
                         uintptr_t stream) {
    flashbench::AttentionE4m3 a;
    a.q = reinterpret_cast<const void*>(q);
    a.k = reinterpret_cast<const void*>(k);
    a.v = reinterpret_cast<const void*>(v);
    a.q_scale = reinterpret_cast<const float*>(q_scale);
    a.k_scale = reinterpret_cast<const float*>(k_scale);
    a.v_scale = reinterpret_cast<const float*>(v_scale);
    a.out = reinterpret_cast<void*>(out);
    a.batch = shape[0];
    a.heads = shape[1];
    a.kv_heads = shape[2];
    a.q_len = shape[3];
    a.k_len = shape[4];
    a.width = shape[5];
    a.head_dim = shape[6];
    a.scale = scale;
    a.causal = causal;
    a.causal_offset = causal_offset;
    a.out_dtype = dtype_of(out_dtype);
    flashbench::cuda::attention_e4m3(a, reinterpret_cast<void*>(stream));
}
#endif

bool has_cuda_e4m3() {
#ifdef FLASHBENCH_CUDA
    return flashbench::cuda::has_e4m3();
#else
    return false;
#endif
}

std::vector<std::string> cuda_dtypes() {
#ifdef FLASHBENCH_CUDA
    return flashbench::cuda::dtypes();
#else
    return {};
#endif
}

std::vector<std::string> cuda_archs() {
#ifdef FLASHBENCH_CUDA
    return flashbench::cuda::archs();
#else
    return {};
#endif
}

py::dict build_info() {
    py::dict info;
    info["commit"] = flashbench::build::commit;
    info["dirty"] = flashbench::build::dirty;
    info["source_hash"] = flashbench::build::source_hash;
    info["compiler"] = flashbench::build::compiler;
    info["cuda_compiler"] = flashbench::build::cuda_compiler;
    info["cpu_dtypes"] = flashbench::cpu::dtypes();
    info["cpu_isas"] = flashbench::cpu::isas();
    info["usable_isas"] = flashbench::cpu::usable_isas();
    info["selected_isa"] = flashbench::cpu::selected_isa();
    info["cuda_dtypes"] = cuda_dtypes();
    info["cuda_archs"] = cuda_archs();
    return info;
}

}  // namespace

PYBIND11_MODULE(_C, m) {
    m.doc() = "Fused attention kernels; see flashbench.attention.";
    m.def("build_info", &build_info);
    m.def("cpu_dtypes", &flashbench::cpu::dtypes);
    m.def("cuda_dtypes", &cuda_dtypes);
    m.def("has_cuda_e4m3", &has_cuda_e4m3);
    m.def("usable_isas", &flashbench::cpu::usable_isas);
    m.def("selected_isa", &flashbench::cpu::selected_isa);
    m.def("select_isa", &flashbench::cpu::select_isa, py::arg("name"));
    m.def("cpu_attention",
          [](uintptr_t q, uintptr_t k, uintptr_t v, uintptr_t out, uintptr_t lse, const Six& shape,
             const Four& q_strides, const Four& k_strides, const Four& v_strides,
             const Four& out_strides, float scale, bool causal, int64_t causal_offset, int dtype,
             int threads) {
              const Attention a = problem(q, k, v, out, lse, shape, q_strides, k_strides, v_strides,
                                          out_strides, scale, causal, causal_offset, dtype);
              py::gil_scoped_release release;
              flashbench::cpu::attention(a, threads);
          });
    m.def("cpu_attention_backward",
          [](const NineAddresses& addresses, const Six& shape, const EightStrides& strides,
             float scale, bool causal, int64_t causal_offset, int dtype, bool deterministic,
             int threads) {
              const AttentionBackward a = backward_problem(
                  addresses, shape, strides, scale, causal, causal_offset, dtype, deterministic);
              py::gil_scoped_release release;
              flashbench::cpu::attention_backward(a, threads);
          });
    flashbench::add_tensor_call(m);
#ifdef FLASHBENCH_CUDA
    const auto def_on_stream = [&m](const char* name,
                                    void (*compute)(const Attention&, void* stream)) {
        m.def(name, [compute](uintptr_t q, uintptr_t k, uintptr_t v, uintptr_t out,
                              uintptr_t lse, const Six& shape, const Four& q_strides,
                              const Four& k_strides, const Four& v_strides,
                              const Four& out_strides, float scale, bool causal,
                              int64_t causal_offset, int dtype, uintptr_t stream) {
            const Attention a = problem(q, k, v, out, lse, shape, q_strides, k_strides, v_strides,
                                        out_strides, scale, causal, causal_offset, dtype);
            compute(a, reinterpret_cast<void*>(stream));
        });
    };
    def_on_stream("cuda_attention", &flashbench::cuda_attention);
    def_on_stream("cuda_reference_attention", &flashbench::cuda::reference_attention);
    // The bytes of scratch memory that cuda_attention_backward needs, with the same arguments.
    m.def("cuda_attention_backward_scratch",
          [](const NineAddresses& addresses, const Six& shape, const EightStrides& strides,
             float scale, bool causal, int64_t causal_offset, int dtype, bool deterministic) {
              return flashbench::cuda::attention_backward_scratch(
                  backward_problem(addresses, shape, strides, scale, causal, causal_offset, dtype,
                                   deterministic));
          });
    m.def("cuda_attention_backward",
          [](const NineAddresses& addresses, const Six& shape, const EightStrides& strides,
             float scale, bool causal, int64_t causal_offset, int dtype, bool deterministic,
             uintptr_t scratch, uintptr_t stream) {
              flashbench::cuda::attention_backward(
                  backward_problem(addresses, shape, strides, scale, causal, causal_offset, dtype,
                                   deterministic),
                  reinterpret_cast<void*>(scratch), reinterpret_cast<void*>(stream));
          });
    m.def("cuda_take_sm80_gradients", &flashbench::cuda::take_sm80_gradients);
    m.def("cuda_attention_e4m3", &cuda_attention_e4m3);
#endif
    m.def("cpu_peak", [](int dtype, int threads) {
        if (dtype < 0 || dtype > static_cast<int>(Dtype::bf16)) {
            throw std::invalid_argument("dtype: the code " + std::to_string(dtype) + " is unknown");
        }
        py::gil_scoped_release release;
        return flashbench::cpu::peak(static_cast<Dtype>(dtype), threads);
    });
}
