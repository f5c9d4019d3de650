// Functions for the host and the GPU, in headers that plain C++ can read too: tests are.
#pragma once

#ifdef __CUDACC__
#define FLASHBENCH_BOTH_SIDES __host__ __device__
#else
#define FLASHBENCH_BOTH_SIDES
#endif
