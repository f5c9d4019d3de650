// RMS norm of rows of halves: a block for each row, sums in fp32.
#include <cuda_fp16.h>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ float sum_of_block(float mine) {
  __shared__ float of_warp[kWarps];
  for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_xor_sync(~0u, mine, lanes);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  float total = 0.0f;
  for (float one : of_warp) total += one;
  return total;
}

__global__ void rms_norm(const __half* x, const __half* weight, __half* out, int dim, float eps) {
  const __half* row = x + static_cast<long long>(blockIdx.x) * dim;
  __half* result = out + static_cast<long long>(blockIdx.x) * dim;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < dim; i += kThreads) {
    const float value = __half2float(row[i]);
    squares += value * value;
  }
  const float scale = rsqrtf(sum_of_block(squares) / dim + eps);
  for (int i = threadIdx.x; i < dim; i += kThreads)
    result[i] = __float2half(__half2float(row[i]) * scale * __half2float(weight[i]));
}

}  // namespace

// Returns a cudaError_t. x, out: (rows, dim), contiguous; weight: (dim,).
extern "C" int launch_rms_norm(const void* x, const void* weight, void* out, int rows, int dim,
                               float eps, void* stream) {
  rms_norm<<<rows, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const __half*>(x), static_cast<const __half*>(weight),
      static_cast<__half*>(out), dim, eps);
  return cudaGetLastError();
}
