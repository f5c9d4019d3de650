// The fp32 unit: compiled once for each instruction set, with -DFLASHBENCH_ISA=<name in isa/>.
#include "isa.h"

#include "fused_attention.h"

namespace flashbench {
namespace cpu {
namespace FLASHBENCH_ISA {

extern const Kernel fp32;
const Kernel fp32 = kernel<float>;

}  // namespace FLASHBENCH_ISA
}  // namespace cpu
}  // namespace flashbench
