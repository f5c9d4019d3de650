// The bf16 unit: compiled once for each instruction set, with -DFLASHBENCH_ISA=<name in isa/>.
#include "isa.h"

#include "fused_attention.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

extern const Kernel bf16;
const Kernel bf16 = kernel<Bf16>;

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
