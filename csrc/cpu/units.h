// The compiled unit in use for a dtype.
#pragma once

#include "kernel.h"

namespace flashbench {
namespace cpu {

// Throws std::invalid_argument if the dtype was left out of the build.
const Kernel& built_kernel(Dtype dtype);

}  // namespace cpu
}  // namespace flashbench
