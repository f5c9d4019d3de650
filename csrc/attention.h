// The interface of the kernels to everything else.
//
// Kernels depend on neither torch nor Python: they get pointers, shapes, strides and a stream. Only
// `bindings.cpp`, `tensor_call.cpp` and `plain_*.cpp` use Python.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace flashbench {

enum class Dtype { fp32, fp16, bf16 };

// Distances between neighbours, in elements (not bytes). Any value is allowed, including zero and
// negative ones, except that the elements of `out` must not overlap.
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
// Scores, softmax and sums are fp32 for every dtype. A row that sees no key gives zeros.
//
// lse, if not null: (batch, heads, q_len), contiguous but for lse_rows rows from one head to the next.
// Becomes the natural logarithm of the sum of exp(scale * score) over the keys that a row sees, -inf
// for a row that sees none.
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
    float* lse = nullptr;
    int64_t lse_rows = 0;
};

// The gradients of sum(dout * out) with respect to q, k and v. `forward` is the problem as the forward
// left it, with out and lse, which are only read. dq has the shape of q; dk and dv, of k and v, sum over
// the heads of a group; dout has the shape of out. The elements of dq, dk and dv must not overlap.
// A row that sees no key has no part in any gradient: zeros in dq.
//
// deterministic: the same problem gives the same bits every time.
struct AttentionBackward {
    Attention forward;
    const void* dout;
    void* dq;  // on the CPU, each of dq, dk and dv may be null: not wanted
    void* dk;
    void* dv;
    Strides dout_strides;
    Strides dq_strides;
    Strides dk_strides;
    Strides dv_strides;
    bool deterministic;
};

// A problem as the kernels take it: without keys that the mask hides from every query, and without the
// mask if it hides nothing else. `unseeing`: the first rows, which see no key, as a problem without
// keys; `seeing`: the others, with causal_offset >= 0. Either may have no rows.
struct ByMask {
    Attention unseeing;
    Attention seeing;
};
ByMask by_mask(const Attention& problem);

// Rows of a head that share one scale in AttentionE4m3.
constexpr int kE4m3Block = 128;

// Attention of e4m3 tensors, all contiguous, in the layouts of kernels/fp8.py. An element is its
// e4m3 value times the scale of its head and block of rows.
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

// The dtypes that were compiled in, e.g. {"fp32", "bf16"}.
std::vector<std::string> dtypes();
// The instruction sets that were compiled in, slowest first, e.g. {"generic", "avx2", "amx"}.
std::vector<std::string> isas();
// The compiled-in instruction sets that this CPU can run, slowest first.
std::vector<std::string> usable_isas();
// The instruction set in use: the fastest usable one, or the choice of `select_isa`.
std::string selected_isa();
// Throws std::invalid_argument if it was not compiled in or this CPU cannot run it.
void select_isa(const std::string& name);

// Floating-point operations per second of `threads` threads that run the products of the dtype's kernel
// from registers: a ceiling for attention. Takes about 0.1 s.
// Throws std::invalid_argument if the dtype was not compiled in.
double peak(Dtype dtype, int threads);

// Computes on at most `threads` threads, including the caller, and returns when done.
// May be called from several threads at once and after fork().
// Throws std::invalid_argument if the dtype was not compiled in.
void attention(const Attention& problem, int threads);
// The same for the gradients. Deterministic, whatever is asked for and with any number of threads.
void attention_backward(const AttentionBackward& problem, int threads);

}  // namespace cpu

namespace cuda {

// The dtypes that were compiled in, and the architectures they were compiled for ("80", "90a").
std::vector<std::string> dtypes();
std::vector<std::string> archs();
// Whether this is the calling thread's current device.
bool is_current(int device);
// The calling thread's current device. Throws std::runtime_error if there is no usable one.
int current_device();

// Returns GPU memory of this size, 16-byte aligned, that nothing else uses until the call's enqueued
// work is done; null if there is none.
using Scratch = std::function<void*(int64_t bytes)>;

// Enqueues work on `stream` (a cudaStream_t) of the current device and returns without waiting.
// A call is one GPU operation, without memset or allocation. It becomes two (a graph holds both) if
// keys are divided among more SMs than a cluster has, which needs memory from `scratch`, given at most once:
// for a few queries or a chunk of them, of few heads, with many keys, for full attention whose last
// tiles would leave SMs idle, and where the sm80 kernels compute few heads with many keys. One more operation
// writes zeros to rows that see no key if other rows do.
// The same problem gives the same bits every time, but different bits with and without scratch memory.
// Throws std::invalid_argument if the problem is not supported, std::runtime_error on a CUDA error.
void attention(const Attention& problem, const Scratch& scratch, void* stream);
// Enqueues the gradients on `stream`: three GPU operations, or four where blocks of threads share the query
// heads of a group, which sums dk and dv in a fixed order. `scratch`: 16-byte aligned memory of
// attention_backward_scratch(problem) bytes that nothing else uses until they are done. dk and dv always
// have the same bits; dq does if `deterministic`, and is slower then.
// NaN and infinity of queries and keys that the mask hides from each other may reach their gradients.
// Both throw std::invalid_argument if there is no kernel for the problem: it needs at least one query and
// key, queries that see a key, a positive scale and, on a GPU of compute capability 9.0, tensors that TMA
// can read (contiguous head vectors, addresses and strides that are multiples of 16 bytes).
int64_t attention_backward_scratch(const AttentionBackward& problem);
void attention_backward(const AttentionBackward& problem, void* scratch, void* stream);
// For tests: whether gradients and the forwards before them take the kernels of sm_80 on any GPU.
void take_sm80_gradients(bool everywhere);
// The same as `attention` with the simplest possible kernel, for tests; fp16 or bf16.
void reference_attention(const Attention& problem, void* stream);

// Whether the e4m3 kernels were compiled in, which exist only for sm_90a.
bool has_e4m3();
// Enqueues one GPU operation, like `attention`. The scale must be positive and finite. Throws
// std::invalid_argument and std::runtime_error as `attention` does.
void attention_e4m3(const AttentionE4m3& problem, void* stream);

}  // namespace cuda

}  // namespace flashbench
