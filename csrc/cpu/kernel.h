// The interface of a compiled unit (one dtype for one instruction set) to dispatch.cpp.
//
// The units are compiled with flags for instructions that this CPU may lack. Two rules follow for
// everything they include:
//  - it is in `namespace flashbench::cpu::FLASHBENCH_ISA`, so that each instruction set has its own
//    symbols, and
//  - it uses no std template and no inline function from elsewhere: many units emit such a function
//    under one name, the linker keeps any one of them, and one with AVX-512 code could then run on
//    CPUs without it.
// Only plain data types, like those below, may be shared.
#pragma once

#include <cstdint>

#include "../attention.h"

namespace flashbench {
namespace cpu {

// fp16 and bf16 as stored: distinct types, so that loads and stores can be overloaded.
struct Fp16 {
    uint16_t bits;
};
struct Bf16 {
    uint16_t bits;
};

// The query heads that share a key head form a group and are computed together: row r of a group is
// query r / (heads / kv_heads) of its head r % (heads / kv_heads). So keys are packed once per group,
// and the number of keys that a row sees never decreases along a group.
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

// 22 steps of 24 rows; in AMX's steps of 32 a task has at most 512. So 512 rows are one task: each task packs
// the keys that it sees.
constexpr int64_t max_task_rows = 528;

// A task of the backward: rows of query heads of one group, with keys of their key head, and the
// gradients to compute: dq from all keys, dk and dv from all rows of the group.
struct BackwardTask {
    int64_t batch;
    int64_t kv_head;
    int64_t first_head;  // query heads [first_head, last_head)
    int64_t last_head;
    int64_t first_row;  // their rows [first_row, last_row); a multiple of backward_rows
    int64_t last_row;
    int64_t first_key;  // the keys [first_key, last_key); a multiple of backward_keys
    int64_t last_key;
    bool dq;
    bool dk;
    bool dv;
};

// Rows and keys that are multiplied at a time.
constexpr int64_t backward_rows = 64;
constexpr int64_t backward_keys = 96;

struct Kernel {
    // Tasks begin at multiples of this, which are whole tiles: a row is in the same tile however its
    // group is cut into tasks.
    int64_t row_step;
    // Floats of scratch memory that one task needs.
    int64_t (*scratch_floats)(const Attention& problem);
    // Floats of a row's partial result if its task sees only part of the keys.
    int64_t (*partial_floats)(const Attention& problem);
    // Computes one task; `scratch` is 64-byte aligned. Rows go to `partial` if given. Prefetches what
    // the task `next` reads, unless it is nullptr.
    void (*compute)(const Attention& problem, const Task& task, const Task* next, float* scratch,
                    float* partial);
    // Writes the rows of a task from the partial results of `parts` tasks, each with a part of the
    // keys, in `partials`, `stride` floats apart. Overwrites `partials`.
    void (*combine)(const Attention& problem, const Task& task, float* partials, int64_t parts,
                    int64_t stride);
    // Floats of scratch memory of a backward task, and its computation; `scratch` as above.
    int64_t (*backward_floats)(const AttentionBackward& problem, const BackwardTask& task);
    void (*backward)(const AttentionBackward& problem, const BackwardTask& task, float* scratch);
    // Runs multiply-adds at the peak rate (peak.h); returns their number.
    int64_t (*multiply_in_registers)(int64_t rounds);
};

}  // namespace cpu
}  // namespace flashbench
