// The reference version: what every CUDA kernel here computes, in readable form. Tests compare the
// others with it; nothing selects it. It is two orders of magnitude slower than sm80.
//
// The online softmax (Milakov and Gimelshein 2018) in its simplest form: one block of threads per query
// row, one key per thread. The output so far is relative to the largest score so far, and rescaled when
// a larger one comes. All in fp32; keys that the row does not see play no part, whatever their values.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "../../attention.h"
#include "../constants.h"
#include "../device.h"

namespace flashbench::cuda {

namespace {

constexpr int kThreads = 128;
constexpr int kDimsAThread = kMaxHeadDim / kThreads;

struct Max {
    __device__ float operator()(float a, float b) const { return a > b || isnan(a) ? a : b; }
};
struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

// Reduces one value per thread, and returns the result to all threads.
template <typename Combine>
__device__ float over_block(float value, float (&shared)[kThreads], Combine combine) {
    __syncthreads();
    shared[threadIdx.x] = value;
    for (int half = kThreads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            shared[threadIdx.x] = combine(shared[threadIdx.x], shared[threadIdx.x + half]);
        }
    }
    __syncthreads();
    return shared[0];
}

template <typename T>
__device__ const T* row_of(const void* base, const Strides& strides, int64_t batch, int64_t head,
                           int64_t row) {
    return static_cast<const T*>(base) + batch * strides.batch + head * strides.head +
           row * strides.seq;
}

template <typename T>
__global__ void reference_forward(const Attention problem) {
    __shared__ float shared[kThreads];
    __shared__ float probabilities[kThreads];
    const int64_t row = blockIdx.x % problem.q_len;
    const int64_t head = blockIdx.x / problem.q_len % problem.heads;
    const int64_t batch = blockIdx.x / problem.q_len / problem.heads;
    const int64_t kv_head = head / (problem.heads / problem.kv_heads);
    const int64_t visible =
        problem.causal
            ? max(int64_t{0}, min(problem.k_len, row + problem.causal_offset + 1))
            : problem.k_len;
    const T* query = row_of<T>(problem.q, problem.q_strides, batch, head, row);

    float largest = -INFINITY;
    float sum = 0.0f;
    float out[kDimsAThread] = {};
    for (int64_t first = 0; first < visible; first += kThreads) {
        const int64_t key = first + threadIdx.x;
        float score = -INFINITY;
        if (key < visible) {
            const T* keys = row_of<T>(problem.k, problem.k_strides, batch, kv_head, key);
            float product = 0.0f;
            for (int64_t dim = 0; dim < problem.head_dim; ++dim) {
                product += static_cast<float>(query[dim * problem.q_strides.dim]) *
                           static_cast<float>(keys[dim * problem.k_strides.dim]);
            }
            score = product * problem.scale;
        }
        const float new_largest = Max{}(largest, over_block(score, shared, Max{}));
        // While all scores are -inf any finite base will do; -inf - (-inf) would be NaN.
        const float base = new_largest == -INFINITY ? 0.0f : new_largest;
        const float rescale = expf(largest - base);
        const float probability = expf(score - base);
        probabilities[threadIdx.x] = probability;
        sum = sum * rescale + over_block(probability, shared, Sum{});
        largest = new_largest;
        const int64_t end = min(int64_t{kThreads}, visible - first);
        for (int i = 0; i < kDimsAThread; ++i) {
            const int64_t dim = i * kThreads + threadIdx.x;
            if (dim < problem.head_dim) {
                out[i] *= rescale;
                for (int64_t j = 0; j < end; ++j) {
                    const T* values =
                        row_of<T>(problem.v, problem.v_strides, batch, kv_head, first + j);
                    out[i] += probabilities[j] *
                              static_cast<float>(values[dim * problem.v_strides.dim]);
                }
            }
        }
    }
    T* target = const_cast<T*>(row_of<T>(problem.out, problem.out_strides, batch, head, row));
    for (int i = 0; i < kDimsAThread; ++i) {
        const int64_t dim = i * kThreads + threadIdx.x;
        if (dim < problem.head_dim) {
            target[dim * problem.out_strides.dim] =
                static_cast<T>(visible == 0 ? 0.0f : out[i] / sum);
        }
    }
}

}  // namespace

void reference_attention(const Attention& problem, void* stream) {
    const int64_t rows = problem.batch * problem.heads * problem.q_len;
    if (problem.dtype == Dtype::fp32 || problem.head_dim > kMaxHeadDim ||
        rows > std::numeric_limits<int>::max()) {
        throw std::invalid_argument("the reference kernel takes fp16 and bf16, head dims up to 256 "
                                    "and 2^31 - 1 rows");
    }
    if (rows == 0) {
        return;
    }
    const auto kernel = problem.dtype == Dtype::fp16 ? reference_forward<__half>
                                                     : reference_forward<__nv_bfloat16>;
    kernel<<<static_cast<unsigned>(rows), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
        problem);
    check(cudaGetLastError());
}

}  // namespace flashbench::cuda
