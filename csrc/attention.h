// The interface between the kernels and the rest of the world.
//
// Kernels know neither torch nor Python: they get pointers, shapes, strides and a stream.
// `bindings.cpp` and `tensor_call.cpp` alone know Python.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace flashbench {

enum class Dtype { fp32, fp16, bf16 };

// Distances between neighbours, in elements (not bytes). Any value is allowed, also zero and
// negative; those of `out` keep its elements apart.
struct Strides {
    int64_t batch;
    int64_t head;
    int64_t seq;
    int64_t dim;
};

// out[b,h,i,:] = softmax_j(scale * q[b,h,i,:] . k[b,g,j,:]) v[b,g,j,:],  g = h / (heads / kv_heads).
//
// q and out: (batch, heads, q_len, head_dim); k and v: (batch, kv_heads, k_len, head_dim).
// `causal` masks j > i + causal_offset: 0 aligns the mask at the top left, as SDPA's is_causal does,
// k_len - q_len at the bottom right, as torch's causal_lower_right does.
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
    int64_t causal_offset;
    float scale;
    bool causal;
    Dtype dtype;
};

// A problem without the keys that its mask hides from every query, and without the mask if that hides
// nothing more: as the kernels take it. `unseeing`: its first rows, if they see no key, as a problem
// without keys; `seeing`: the others, causal_offset not negative. Either may have no rows.
struct ByMask {
    Attention unseeing;
    Attention seeing;
};
ByMask by_mask(const Attention& problem);

// Rows of a head that share one scale in AttentionE4m3.
constexpr int kE4m3Block = 128;

// The same of e4m3 tensors, all contiguous, in the layouts that flashbench/fp8.py makes. An element
// is its e4m3 value times the scale of its head and block of rows.
//
// q: (batch, heads, q_len, width); k: (batch, kv_heads, k_len, width), width 64 or 128;
// v: (batch, kv_heads, width, k_len rounded up to blocks), keys and dims in the kernel's order;
// scales: (batch, heads, blocks); out: (batch, heads, q_len, head_dim), fp16 or bf16.
struct AttentionE4m3 {
    const void* q;
    const void* k;
    const void* v;
    const float* q_scale;
    const float* k_scale;
    const float* v_scale;
    void* out;
    int64_t batch;
    int64_t heads;
    int64_t kv_heads;
    int64_t q_len;
    int64_t k_len;
    int64_t width;
    int64_t head_dim;
    int64_t causal_offset;
    float scale;
    bool causal;
    Dtype out_dtype;
};

const char* name_of(Dtype dtype);

namespace cpu {

// Dtypes whose unit was compiled in, e.g. {"fp32", "bf16"}.
std::vector<std::string> dtypes();
// Instruction sets that were compiled in, slowest first, e.g. {"generic", "avx2", "amx"}.
std::vector<std::string> isas();
// The compiled-in instruction sets that this CPU can run, slowest first.
std::vector<std::string> usable_isas();
// The one in use: the fastest usable one unless `select_isa` said otherwise.
std::string selected_isa();
// Throws std::invalid_argument when it was not compiled in or this CPU cannot run it.
void select_isa(const std::string& name);

// Floating-point operations per second of `threads` threads multiplying what the kernel of the
// dtype multiplies, from registers: a ceiling for attention. Takes about 0.1 s.
// Throws std::invalid_argument when the dtype was not compiled in.
double peak(Dtype dtype, int threads);

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
// That device. Throws std::runtime_error when there is no usable one.
int current_device();

// Returns that many bytes of GPU memory, 16-byte aligned, that nothing else uses until what the
// call enqueues is done; null if there is none.
using Scratch = std::function<void*(int64_t bytes)>;

// Enqueues on `stream` (a cudaStream_t) of the current device and returns without waiting.
// One GPU operation a call: no memset, no allocation. Where keys have to be divided among more SMs than
// a cluster has, `scratch` is asked once, and if it gives memory, the call is two operations (a graph
// holds both): a few queries of very few heads with many keys, and full attention whose last tiles
// would leave SMs idle. One more operation writes zeros to rows that see no key, where others do.
// The same problem gives the same bits every time; with scratch memory other ones than without.
// Throws std::invalid_argument when the problem is not supported, std::runtime_error on a CUDA error.
void attention(const Attention& problem, const Scratch& scratch, void* stream);
// The same by the simplest possible kernel, for tests: heads a multiple of kv_heads, fp16 or bf16.
void reference_attention(const Attention& problem, void* stream);

// Whether the e4m3 kernels were compiled in; they are for sm_90a only.
bool has_e4m3();
// One GPU operation, enqueued like those of `attention`. The scale must be positive and finite.
// Throws std::invalid_argument and std::runtime_error as they do.
void attention_e4m3(const AttentionE4m3& problem, void* stream);

}  // namespace cuda

}  // namespace flashbench
