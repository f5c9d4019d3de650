// Marks functions for host and GPU in headers that plain C++, such as tests, can include.
#pragma once

#ifdef __CUDACC__
#define FLASHBENCH_BOTH_SIDES __host__ __device__
#else
#define FLASHBENCH_BOTH_SIDES
#endif
