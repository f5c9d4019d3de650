// Does racecheck see that __syncthreads orders shared memory after named barriers?
//
// Groups of two warps exchange a tile at a named barrier of their own in a loop, as ../csrc/cuda/decode
// does; then all threads write their part, meet at __syncthreads, and read the others' parts. Nothing here
// races. The mode is what the groups meet at, and what stands beside the last __syncthreads:
//
//   0  named barriers            1  __syncthreads only            2  named, then a barrier of the cluster
//
//   nvcc -arch=sm_90a -lineinfo experiments/racecheck_barriers.cu -o build/racecheck_barriers
//   compute-sanitizer --tool racecheck build/racecheck_barriers MODE
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kGroups = 4;
constexpr int kGroupThreads = 64;
constexpr int kThreads = kGroups * kGroupThreads;
constexpr int kSteps = 8;

__device__ void meet_in_group(int group) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(1 + group), "n"(kGroupThreads) : "memory");
}

__global__ void exchange(int mode, float* out) {
    __shared__ float ring[kGroups][kGroupThreads];
    __shared__ float parts[kThreads];
    const int group = threadIdx.x / kGroupThreads;
    const int lane = threadIdx.x % kGroupThreads;
    const auto meet = [&] {
        if (mode == 1) {
            __syncthreads();
        } else {
            meet_in_group(group);
        }
    };
    float sum = 0;
    for (int step = 0; step < kSteps; ++step) {
        ring[group][lane] = static_cast<float>(threadIdx.x + step);
        meet();
        sum += ring[group][(lane + 37) % kGroupThreads];
        meet();
    }
    __syncthreads();
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (mode == 2) {
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
        asm volatile("barrier.cluster.wait.aligned;\n" ::: "memory");
    }
    out[threadIdx.x] = parts[threadIdx.x] + parts[(threadIdx.x + kThreads / 2) % kThreads];
}

void check(cudaError_t status) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "racecheck_barriers: %s\n", cudaGetErrorString(status));
        std::exit(4);
    }
}

}  // namespace

int main(int count, char** words) {
    const int mode = count == 2 ? std::atoi(words[1]) : -1;
    if (mode < 0 || mode > 2) {
        std::fprintf(stderr, "usage: racecheck_barriers MODE (0, 1 or 2)\n");
        return 2;
    }
    float* out = nullptr;
    check(cudaMalloc(&out, kThreads * sizeof(float)));
    exchange<<<1, kThreads>>>(mode, out);
    std::vector<float> found(kThreads);
    check(cudaMemcpy(found.data(), out, kThreads * sizeof(float), cudaMemcpyDeviceToHost));
    for (int thread = 0; thread < kThreads; ++thread) {
        float expected = 0;
        for (const int one : {thread, (thread + kThreads / 2) % kThreads}) {
            const int other = one / kGroupThreads * kGroupThreads + (one + 37) % kGroupThreads;
            for (int step = 0; step < kSteps; ++step) {
                expected += static_cast<float>(other + step);
            }
        }
        if (found[thread] != expected) {
            std::printf("thread %d: %g instead of %g\n", thread, found[thread], expected);
            return 1;
        }
    }
    std::printf("mode %d: right\n", mode);
    return 0;
}
