// The fp16 unit: compiled once for each instruction set, with -DFLASHBENCH_ISA=<name in isa/>.
#include "isa.h"

#include "fused_attention.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

extern const Kernel fp16;
const Kernel fp16 = kernel<Fp16>;

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
