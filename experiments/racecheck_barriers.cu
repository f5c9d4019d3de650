// Does racecheck see that __syncthreads orders shared memory after named barriers?
//
// Groups of two warps pass values on at a named barrier of their own in a loop, as ../csrc/cuda/decode does;
// then the block meets, every thread stores its sum where the values were, the block meets again, and every
// thread reads the sums of others. Nothing here races. Racecheck of CUDA 13.0 names a race (1 error) between
// those stores and reads where groups took different numbers of steps, unless a barrier of the cluster,
// here of one block, repeats the last __syncthreads:
//
//   MODE uneven    0 to 3 steps more a group              1 error
//   MODE even      all groups take as many                0 errors
//   MODE repeated  uneven, then a barrier of the cluster  0 errors
//
// (H200; the error stands for 28 hazards.)
//
//   nvcc -arch=sm_90a -O3 -lineinfo experiments/racecheck_barriers.cu -o build/racecheck_barriers
//   compute-sanitizer --tool racecheck build/racecheck_barriers MODE
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

enum class Mode { uneven, even, repeated };

constexpr int kGroupThreads = 64;
constexpr int kThreads = 256;
constexpr int kBlocks = 3;
constexpr int kReadStep = 7;

__device__ void meet_in_group(int group) {
    asm volatile("bar.sync %0, %1;\n" ::"r"(1 + group), "n"(kGroupThreads) : "memory");
}

template <Mode mode>
__global__ void exchange(float* out, int steps) {
    extern __shared__ float memory[];
    const int group = threadIdx.x / kGroupThreads;
    const int lane = threadIdx.x % kGroupThreads;
    float* const ring = memory + group * kGroupThreads;
    float sum = 0;
    const int own_steps = mode == Mode::even ? steps : steps + group;
    for (int step = 0; step < own_steps; ++step) {
        ring[lane] = static_cast<float>(threadIdx.x + step);
        meet_in_group(group);
        sum += ring[(lane + 37) % kGroupThreads];
        meet_in_group(group);
    }
    __syncthreads();
    memory[threadIdx.x] = sum;
    __syncthreads();
    if (mode == Mode::repeated) {
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\n" ::: "memory");
        asm volatile("barrier.cluster.wait.aligned;\n" ::: "memory");
    }
    float total = 0;
    for (int i = threadIdx.x; i < kThreads; i += kReadStep) {
        total += memory[i];
    }
    out[blockIdx.x * kThreads + threadIdx.x] = total;
}

void check(cudaError_t status) {
    if (status != cudaSuccess) {
        std::fprintf(stderr, "racecheck_barriers: %s\n", cudaGetErrorString(status));
        std::exit(4);
    }
}

// What a thread of exchange finds; sums of small whole numbers, so exact.
float expected(int thread, bool even, int steps) {
    float total = 0;
    for (int i = thread; i < kThreads; i += kReadStep) {
        const int group = i / kGroupThreads;
        const int source = group * kGroupThreads + (i % kGroupThreads + 37) % kGroupThreads;
        for (int step = 0; step < (even ? steps : steps + group); ++step) {
            total += static_cast<float>(source + step);
        }
    }
    return total;
}

template <Mode mode>
int run() {
    constexpr int steps = 8;
    std::vector<float> found(kBlocks * kThreads);
    const size_t bytes = found.size() * sizeof(float);
    float* out = nullptr;
    check(cudaMalloc(&out, bytes));
    exchange<mode><<<kBlocks, kThreads, kThreads * sizeof(float)>>>(out, steps);
    check(cudaGetLastError());
    check(cudaMemcpy(found.data(), out, bytes, cudaMemcpyDeviceToHost));
    check(cudaFree(out));
    for (int i = 0; i < kBlocks * kThreads; ++i) {
        if (found[i] != expected(i % kThreads, mode == Mode::even, steps)) {
            std::printf("wrong: thread %d of block %d has %g\n", i % kThreads, i / kThreads, found[i]);
            return 1;
        }
    }
    std::printf("right\n");
    return 0;
}

}  // namespace

int main(int count, char** words) {
    const char* const mode = count == 2 ? words[1] : "";
    if (std::strcmp(mode, "uneven") == 0) {
        return run<Mode::uneven>();
    }
    if (std::strcmp(mode, "even") == 0) {
        return run<Mode::even>();
    }
    if (std::strcmp(mode, "repeated") == 0) {
        return run<Mode::repeated>();
    }
    std::fprintf(stderr, "usage: racecheck_barriers uneven|even|repeated\n");
    return 2;
}
