// Chooses the unit for the dtype and for this CPU, and spreads a problem over threads.
//
// Compiled without instruction set flags. The build defines which units exist: FLASHBENCH_CPU_FP32,
// _FP16 and _BF16 for the dtypes; beside the generic instruction set, FLASHBENCH_CPU_X86 for AVX2 and
// AVX-512, _AVX512BF16 and _AMX if the compiler supports them, and FLASHBENCH_CPU_NEON.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <new>
#include <stdexcept>

#include "../attention.h"
#include "thread_pool.h"
#include "thread_scratch.h"
#include "units.h"
#include "useful_threads.h"
#include "work_list.h"

#ifdef FLASHBENCH_CPU_X86
#include "x86.h"
#endif

namespace flashbench {
namespace cpu {

#define FLASHBENCH_DECLARE_UNITS(isa) \
    namespace isa {                   \
    extern const Kernel fp32;         \
    extern const Kernel fp16;         \
    extern const Kernel bf16;         \
    }
FLASHBENCH_DECLARE_UNITS(generic)
FLASHBENCH_DECLARE_UNITS(avx2)
FLASHBENCH_DECLARE_UNITS(avx512)
FLASHBENCH_DECLARE_UNITS(avx512bf16)
FLASHBENCH_DECLARE_UNITS(amx)
FLASHBENCH_DECLARE_UNITS(neon)

// The address of a unit's kernel; nullptr for a dtype that was not compiled in.
#ifdef FLASHBENCH_CPU_FP32
#define FLASHBENCH_FP32(isa) &isa::fp32
#else
#define FLASHBENCH_FP32(isa) nullptr
#endif
#ifdef FLASHBENCH_CPU_FP16
#define FLASHBENCH_FP16(isa) &isa::fp16
#else
#define FLASHBENCH_FP16(isa) nullptr
#endif
#ifdef FLASHBENCH_CPU_BF16
#define FLASHBENCH_BF16(isa) &isa::bf16
#else
#define FLASHBENCH_BF16(isa) nullptr
#endif
#define FLASHBENCH_UNITS(isa) {FLASHBENCH_FP32(isa), FLASHBENCH_FP16(isa), FLASHBENCH_BF16(isa)}
// An instruction set that extends AVX-512 by products of bf16.
#define FLASHBENCH_BF16_UNIT(isa) \
    {FLASHBENCH_FP32(avx512), FLASHBENCH_FP16(avx512), FLASHBENCH_BF16(isa)}

namespace {

struct InstructionSet {
    const char* name;
    bool (*usable)();
    const Kernel* kernels[3];  // in the order of Dtype
    // Whether it is faster here than those before it; null if it is wherever it is usable.
    bool (*faster)() = nullptr;
};

// Slowest first.
const InstructionSet instruction_sets[] = {
    {"generic", [] { return true; }, FLASHBENCH_UNITS(generic)},
#ifdef FLASHBENCH_CPU_X86
    {"avx2", x86::has_avx2, FLASHBENCH_UNITS(avx2)},
    {"avx512", x86::has_avx512, FLASHBENCH_UNITS(avx512)},
#endif
#ifdef FLASHBENCH_CPU_AVX512BF16
    {"avx512bf16", x86::has_avx512bf16, FLASHBENCH_BF16_UNIT(avx512bf16),
     x86::has_fast_avx512bf16},
#endif
#ifdef FLASHBENCH_CPU_NEON
    {"neon", [] { return true; }, FLASHBENCH_UNITS(neon)},
#endif
#ifdef FLASHBENCH_CPU_AMX
    {"amx", x86::has_amx, FLASHBENCH_BF16_UNIT(amx)},
#endif
};

constexpr Dtype all_dtypes[] = {Dtype::fp32, Dtype::fp16, Dtype::bf16};
constexpr char override_variable[] = "FLASHBENCH_CPU_ISA";

std::atomic<const InstructionSet*> selected{nullptr};

const InstructionSet* find_usable(const std::string& name) {
    for (const InstructionSet& isa : instruction_sets) {
        if (name == isa.name && isa.usable()) return &isa;
    }
    return nullptr;
}

const InstructionSet& fastest() {
    const InstructionSet* found = instruction_sets;
    for (const InstructionSet& isa : instruction_sets) {
        if (isa.usable() && (!isa.faster || isa.faster())) found = &isa;
    }
    return *found;
}

// `what` says where the name came from.
[[noreturn]] void refuse(const std::string& what, const std::string& name) {
    std::string message = what + ": no usable instruction set \"" + name + "\"; choose one of";
    for (const std::string& usable : usable_isas()) message += " " + usable;
    throw std::invalid_argument(message);
}

const InstructionSet& current() {
    const InstructionSet* isa = selected;
    if (isa) return *isa;
    const char* wanted = std::getenv(override_variable);
    isa = wanted && *wanted ? find_usable(wanted) : &fastest();
    if (!isa) refuse(override_variable, wanted);
    selected = isa;
    return *isa;
}

const Kernel* kernel_of(const InstructionSet& isa, Dtype dtype) {
    return isa.kernels[static_cast<int>(dtype)];
}

thread_local ThreadScratch thread_scratch;
thread_local ThreadScratch caller_partials;

struct Job {
    const Attention& problem;
    const Kernel& kernel;
    const WorkList tasks;
    const int64_t scratch_floats;
    float* const partials;          // of all tasks, if each sees a part of the keys
    const int64_t partial_floats;  // of a task
    const bool prefetch;
    std::atomic<int64_t> next{0};
};

void work_on(void* context) {
    Job& job = *static_cast<Job*>(context);
    if (job.next >= job.tasks.size()) return;
    float* const scratch = thread_scratch.reserve(job.scratch_floats);
    if (!scratch) return;  // a helper without memory leaves its share to the caller
    for (int64_t i = job.next++; i < job.tasks.size(); i = job.next++) {
        float* const partial = job.partials ? job.partials + i * job.partial_floats : nullptr;
        const Task task = job.tasks[i];
        const int64_t follows = job.next;  // unless another thread takes it
        const Task next = follows < job.tasks.size() ? job.tasks[follows] : task;
        job.kernel.compute(job.problem, task, job.prefetch ? &next : nullptr, scratch, partial);
    }
}

// Whether prefetching pays: the tensors exceed a second-level cache; where few rows share keys, or see few, and
// leave little work to hide the requests, a third-level one.
bool is_worth_fetching(const Attention& problem) {
    constexpr int64_t second_level = 4 << 20, third_level = 32 << 20, few = 64;
    const int64_t sharing = problem.heads / problem.kv_heads * problem.q_len;
    const int64_t rows = problem.batch * problem.kv_heads * (sharing + problem.k_len);
    const int64_t bytes = 2 * rows * problem.head_dim * (problem.dtype == Dtype::fp32 ? 4 : 2);
    return bytes > (sharing < few || problem.k_len < few ? third_level : second_level);
}

struct PeakJob {
    const Kernel& kernel;
    const int64_t rounds;
    const int64_t pieces;
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> multiply_adds{0};
};

void multiply_pieces(void* context) {
    PeakJob& job = *static_cast<PeakJob*>(context);
    while (job.next++ < job.pieces) {
        job.multiply_adds += job.kernel.multiply_in_registers(job.rounds);
    }
}

// Floating-point operations per second over `pieces` pieces of work.
double measure_peak(const Kernel& kernel, int64_t rounds, int64_t pieces, int threads,
                    double* seconds) {
    PeakJob job{kernel, rounds, pieces};
    const auto start = std::chrono::steady_clock::now();
    run_parallel(threads, threads, multiply_pieces, &job);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    *seconds = taken.count();
    return 2.0 * static_cast<double>(job.multiply_adds) / taken.count();
}

// Computes one part of `by_mask`, with at least one row.
void compute(const Attention& problem, const Kernel& kernel, int threads) {
    const int useful = useful_threads(problem, kernel.row_step, threads);
    const WorkList tasks(problem, kernel.row_step, useful);
    const int64_t scratch_floats = kernel.scratch_floats(problem);
    if (!thread_scratch.reserve(scratch_floats)) throw std::bad_alloc();
    int64_t partial_floats = 0;
    float* partials = nullptr;
    if (tasks.parts() > 1) {
        partial_floats = tasks.rows() * kernel.partial_floats(problem);
        partials = caller_partials.reserve(tasks.size() * partial_floats);
        if (!partials) throw std::bad_alloc();
    }
    Job job{problem,  kernel,         tasks, scratch_floats,
            partials, partial_floats, is_worth_fetching(problem)};
    run_parallel(threads, static_cast<int>(std::min<int64_t>(useful, tasks.size())), work_on, &job);
    for (int64_t i = 0; partials && i < tasks.size(); i += tasks.parts()) {
        kernel.combine(problem, tasks[i], partials + i * partial_floats, tasks.parts(),
                        partial_floats);
    }
}

}  // namespace

const Kernel& built_kernel(Dtype dtype) {
    const Kernel* const kernel = kernel_of(current(), dtype);
    if (kernel) return *kernel;
    throw std::invalid_argument(std::string(name_of(dtype)) +
                                " was not compiled into the CPU backend");
}

std::vector<std::string> dtypes() {
    std::vector<std::string> names;
    for (const Dtype dtype : all_dtypes) {
        if (kernel_of(instruction_sets[0], dtype)) names.push_back(name_of(dtype));
    }
    return names;
}

std::vector<std::string> isas() {
    std::vector<std::string> names;
    for (const InstructionSet& isa : instruction_sets) names.push_back(isa.name);
    return names;
}

std::vector<std::string> usable_isas() {
    std::vector<std::string> names;
    for (const InstructionSet& isa : instruction_sets) {
        if (isa.usable()) names.push_back(isa.name);
    }
    return names;
}

std::string selected_isa() { return current().name; }

void select_isa(const std::string& name) {
    const InstructionSet* const isa = find_usable(name);
    if (!isa) refuse("select_isa", name);
    selected = isa;
}

double peak(Dtype dtype, int threads) {
    const Kernel& kernel = built_kernel(dtype);
    constexpr double piece_seconds = 0.5e-3;
    int64_t rounds = 500;
    double seconds = 0.0;
    while (seconds < piece_seconds) {
        rounds *= 2;
        measure_peak(kernel, rounds, 1, 1, &seconds);
    }
    double best = 0.0;
    for (int i = 0; i < 5; ++i) {
        best = std::max(best, measure_peak(kernel, rounds, 40 * threads, threads, &seconds));
    }
    return best;
}

void attention(const Attention& problem, int threads) {
    const Kernel& kernel = built_kernel(problem.dtype);
    if (problem.batch <= 0 || problem.heads <= 0 || problem.q_len <= 0 || problem.head_dim <= 0) {
        return;
    }
    if (problem.kv_heads <= 0 || problem.heads % problem.kv_heads != 0) {
        throw std::invalid_argument("heads must be a multiple of kv_heads");
    }
    const ByMask parts = by_mask(problem);
    for (const Attention& part : {parts.unseeing, parts.seeing}) {
        if (part.q_len > 0) compute(part, kernel, threads);
    }
}

}  // namespace cpu
}  // namespace flashbench
