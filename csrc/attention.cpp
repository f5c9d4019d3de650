// What every backend shares: the names of the dtypes.
#include "attention.h"

namespace flashbench {

const char* name_of(Dtype dtype) {
    switch (dtype) {
        case Dtype::fp32:
            return "fp32";
        case Dtype::fp16:
            return "fp16";
        case Dtype::bf16:
            return "bf16";
    }
    return "unknown";
}

}  // namespace flashbench
