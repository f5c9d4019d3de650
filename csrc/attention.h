// The one interface between the kernels and the rest of the world.
//
// Kernels know nothing of torch or Python: they get pointers, shapes, strides and a stream.
// `bindings.cpp` and `tensor_call.cpp` alone know Python.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flashbench {

enum class Dtype { fp32, fp16, bf16 };

// Distances between neighbours, in elements (not bytes). Any value is allowed, also zero and
// negative, except for `dim`, the distance inside a head vector.
struct Strides {
    int64_t batch;
    int64_t head;
    int64_t seq;
    int64_t dim;
};

// out[b,h,i,:] = softmax_j(scale * q[b,h,i,:] . k[b,g,j,:]) v[b,g,j,:],  g = h / (heads / kv_heads).
//
// q and out: (batch, heads, q_len, head_dim); k and v: (batch, kv_heads, k_len, head_dim).
// `causal` masks j > i (aligned at the top left, as SDPA's is_causal does).
// Scores, softmax and sums are fp32 whatever the dtype. A row with no key gives zeros.
struct Attention {
    const void* q;
    const void* k;
    const void* v;
    void* out;
    Strides q_strides;
    Strides k_strides;
    Strides v_strides;
    Strides out_strides;
    int64_t batch;
    int64_t heads;
    int64_t kv_heads;
    int64_t q_len;
    int64_t k_len;
    int64_t head_dim;
    float scale;
    bool causal;
    Dtype dtype;
};

const char* name_of(Dtype dtype);

namespace cpu {

// Dtypes whose unit was compiled in, e.g. {"fp32", "bf16"}.
std::vector<std::string> dtypes();
// Instruction sets that were compiled in, slowest first, e.g. {"generic", "avx2", "avx512"}.
std::vector<std::string> isas();
// The compiled-in instruction sets that this CPU can run, slowest first.
std::vector<std::string> usable_isas();
// The one in use: the fastest usable one unless `select_isa` said otherwise.
std::string selected_isa();
// Throws std::invalid_argument when it was not compiled in or this CPU cannot run it.
void select_isa(const std::string& name);

// Computes on at most `threads` threads (the caller is one of them) and returns when done.
// May be called from several threads at once and after fork().
// Throws std::invalid_argument when the dtype was not compiled in.
void attention(const Attention& problem, int threads);

}  // namespace cpu

namespace cuda {

// Dtypes whose units were compiled in, and the architectures they were compiled for ("80", "90a").
std::vector<std::string> dtypes();
std::vector<std::string> archs();
// Whether this is the device that the calling thread works on now.
bool is_current(int device);

// Enqueues on `stream` (a cudaStream_t) of the current device and returns without waiting.
// One GPU operation a call: no memset, no second kernel, no allocation.
// Throws std::invalid_argument when the problem is not supported, std::runtime_error on a CUDA error.
void attention(const Attention& problem, void* stream);
// The same by the plainest kernel there is, for tests: heads a multiple of kv_heads, fp16 or bf16.
void reference_attention(const Attention& problem, void* stream);

}  // namespace cuda

}  // namespace flashbench
