// The features of this x86-64 CPU that its operating system supports.
#pragma once

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace flashbench {
namespace cpu {
namespace x86 {

// The compiler's checks cover the operating system, but not F16C and AMX on every version.
inline bool has_avx2() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

inline bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

inline bool has_avx512bf16() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5));
}

// Whether vdpbf16ps multiplies faster than fp32's multiply-adds. On AMD's Zen 4 it has nearly twice
// their rate. On Intel's it has half of it, and such a CPU multiplies bf16 by AMX, or as fp32.
inline bool has_fast_avx512bf16() { return has_avx512bf16() && !__builtin_cpu_is("intel"); }

// Linux grants the tile registers on request, to all threads of a process.
inline bool has_amx() {
#if defined(__linux__) && defined(SYS_arch_prctl)
    constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
    constexpr int request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
    unsigned a = 0, b = 0, c = 0, d = 0;
    return has_avx512bf16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & amx_bf16) &&
           (d & amx_tile) && syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}

}  // namespace x86
}  // namespace cpu
}  // namespace flashbench
