#include "tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "../constants.h"
#include "../device.h"

namespace flashbench::cuda::sm90 {

namespace {

// Asked of the loaded driver, so that this library loads where there is none.
PFN_cuTensorMapEncodeTiled_v12000 encode_function() {
    static const PFN_cuTensorMapEncodeTiled_v12000 function = [] {
        void* address = nullptr;
        cudaDriverEntryPointQueryResult result;
        check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000,
                                               cudaEnableDefault, &result));
        if (result != cudaDriverEntryPointSuccess) {
            throw std::runtime_error("the CUDA driver has no cuTensorMapEncodeTiled; it must be "
                                     "for CUDA 12.0 or later");
        }
        return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(address);
    }();
    return function;
}

}  // namespace

bool encode_tensor_map(const TensorView& view, CUtensorMap& map) {
    constexpr cuuint64_t kStrideLimit = cuuint64_t{1} << 40;
    if (view.strides.dim != 1 || reinterpret_cast<uintptr_t>(view.base) % kChunkBytes != 0) {
        return false;
    }
    const int64_t counts[3] = {view.length, view.heads, view.batch};
    const int64_t strides[3] = {view.strides.seq, view.strides.head, view.strides.batch};
    cuuint64_t sizes[4] = {static_cast<cuuint64_t>(view.head_dim)};
    cuuint64_t stride_bytes[3];
    for (int i = 0; i < 3; ++i) {
        sizes[i + 1] = static_cast<cuuint64_t>(counts[i]);
        // Of a dimension of one element the stride means nothing.
        const int64_t stride = counts[i] == 1 ? kChunkElements : strides[i];
        if (stride <= 0 || stride % kChunkElements != 0) {
            return false;
        }
        stride_bytes[i] = static_cast<cuuint64_t>(stride) * kElementBytes;
        if (stride_bytes[i] >= kStrideLimit) {
            return false;
        }
    }
    const cuuint32_t box[4] = {static_cast<cuuint32_t>(view.box_dims),
                               static_cast<cuuint32_t>(view.box_rows), 1, 1};
    const cuuint32_t element_strides[4] = {1, 1, 1, 1};
    const CUresult status = encode_function()(
        &map,
        view.dtype == Dtype::fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                  : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        4, const_cast<void*>(view.base), sizes, stride_bytes, box, element_strides,
        CU_TENSOR_MAP_INTERLEAVE_NONE,
        view.box_dims == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        throw std::runtime_error("cuTensorMapEncodeTiled failed with CUDA driver error " +
                                 std::to_string(static_cast<int>(status)));
    }
    return true;
}

}  // namespace flashbench::cuda::sm90
