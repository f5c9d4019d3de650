// The interface of a compiled unit (one dtype for one instruction set) to dispatch.cpp.
//
// The units are compiled with flags for instructions that this CPU may lack. Two rules follow for
// everything they include:
//  - it lives in `namespace flashbench::cpu::FLASHBENCH_ISA`, so that each instruction set has
//    symbols of its own, and
//  - it uses no std template and no inline function from elsewhere: such a function is emitted by
//    many units under one name, the linker keeps any one of them, and the one with AVX-512 code
//    would then run on CPUs without it.
// Only plain data types, like those below, may be shared.
#pragma once

#include <cstdint>

#include "../attention.h"

namespace flashbench {
namespace cpu {

// fp16 and bf16 as stored. Types of their own, so that loads and stores can be overloaded.
struct Fp16 {
    uint16_t bits;
};
struct Bf16 {
    uint16_t bits;
};

// The query heads that share a key head are computed together: row r of such a group is query
// r / (heads / kv_heads) of its head r % (heads / kv_heads). Thus keys are packed once for the
// whole group, and what a row may see never shrinks from one row to the next.
//
// A task is a run of rows of one group.
struct Task {
    int64_t batch;
    int64_t kv_head;
    int64_t first_row;  // a multiple of the kernel's row_step
    int64_t rows;       // at most max_task_rows
    int64_t first_key;  // it sees the keys [first_key, last_key)
    int64_t last_key;
};

constexpr int64_t max_task_rows = 480;

struct Kernel {
    // Tasks begin at multiples of this: whole tiles, so that a row is in the same tile however its
    // group is cut into tasks.
    int64_t row_step;
    // Floats of scratch memory that one task needs.
    int64_t (*scratch_floats)(const Attention& problem);
    // Floats that a row of a task leaves if the task sees a part of the keys.
    int64_t (*partial_floats)(const Attention& problem);
    // Computes one task; `scratch` is aligned to 64 bytes. Rows go to `partial` if that is given. What
    // `next` reads, which may be nullptr, is fetched into the cache.
    void (*compute)(const Attention& problem, const Task& task, const Task* next, float* scratch,
                    float* partial);
    // Writes the rows of a task of which `parts` tasks, each with a part of the keys, left theirs in
    // `partials`, `stride` floats from one to the next. Uses up `partials`.
    void (*combine)(const Attention& problem, const Task& task, float* partials, int64_t parts,
                    int64_t stride);
    // Multiplies and adds as fast as it can (peak.h); returns how often.
    int64_t (*multiply_in_registers)(int64_t rounds);
};

}  // namespace cpu
}  // namespace flashbench
