#include "tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>

#include "../constants.h"
#include "../device.h"

namespace flashbench::cuda::sm90 {

namespace {

// Looked up in the driver at run time, so that this library loads without one.
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

// Sizes and boxes from the fastest dimension on, strides (in bytes) from the second on. False if the driver does not
// take a stride of zero, which its documentation leaves open.
template <int rank>
bool encode(CUtensorMapDataType type, const void* base, const cuuint64_t (&sizes)[rank],
            const cuuint64_t (&stride_bytes)[rank - 1], const cuuint32_t (&box)[rank],
            int swizzle_bytes, CUtensorMap& map) {
    const cuuint32_t element_strides[5] = {1, 1, 1, 1, 1};
    const auto encode_once = [&] {
        return encode_function()(
            &map, type, rank, const_cast<void*>(base), sizes, stride_bytes, box, element_strides,
            CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    CUresult status = encode_once();
    if (status == CUDA_ERROR_INVALID_CONTEXT) {
        // This thread has no current context yet, as autograd's before their first kernel.
        check(cudaSetDevice(current_device()));
        status = encode_once();
    }
    if (status == CUDA_ERROR_INVALID_VALUE &&
        std::find(std::begin(stride_bytes), std::end(stride_bytes), 0) != std::end(stride_bytes)) {
        return false;
    }
    if (status != CUDA_SUCCESS) {
        throw std::runtime_error("cuTensorMapEncodeTiled failed with CUDA driver error " +
                                 std::to_string(static_cast<int>(status)));
    }
    return true;
}

// Sizes of head_dim and the other dimensions, and the strides of those in bytes; false if TMA does not
// support them.
template <int others>
bool describe(const TensorView& view, const int64_t (&counts)[others],
              const int64_t (&strides)[others], cuuint64_t (&sizes)[others + 1],
              cuuint64_t (&stride_bytes)[others]) {
    constexpr cuuint64_t kStrideLimit = cuuint64_t{1} << 40;
    if (view.strides.dim != 1 || reinterpret_cast<uintptr_t>(view.base) % kChunkBytes != 0) {
        return false;
    }
    sizes[0] = static_cast<cuuint64_t>(view.head_dim);
    for (int i = 0; i < others; ++i) {
        sizes[i + 1] = static_cast<cuuint64_t>(counts[i]);
        // The stride of a dimension with one element is meaningless.
        const int64_t stride = counts[i] == 1 ? kChunkElements : strides[i];
        if (stride < 0 || stride % kChunkElements != 0) {
            return false;
        }
        stride_bytes[i] = static_cast<cuuint64_t>(stride) * kElementBytes;
        if (stride_bytes[i] >= kStrideLimit) {
            return false;
        }
    }
    return true;
}

// The same for rows, heads and batch.
bool describe_heads(const TensorView& view, cuuint64_t (&sizes)[4],
                    cuuint64_t (&stride_bytes)[3]) {
    const int64_t counts[3] = {view.length, view.heads, view.batch};
    const int64_t strides[3] = {view.strides.seq, view.strides.head, view.strides.batch};
    return describe<3>(view, counts, strides, sizes, stride_bytes);
}

CUtensorMapDataType type_of(Dtype dtype) {
    return dtype == Dtype::fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

}  // namespace

bool encode_tensor_map(const TensorView& view, CUtensorMap& map) {
    cuuint64_t sizes[4];
    cuuint64_t stride_bytes[3];
    if (!describe_heads(view, sizes, stride_bytes)) {
        return false;
    }
    const cuuint32_t box[4] = {static_cast<cuuint32_t>(view.box_dims),
                               static_cast<cuuint32_t>(view.box_rows), 1, 1};
    return encode<4>(type_of(view.dtype), view.base, sizes, stride_bytes, box,
                     view.box_dims * kElementBytes, map);
}

bool encode_whole_rows(const TensorView& view, CUtensorMap& map) {
    cuuint64_t sizes[4];
    cuuint64_t stride_bytes[3];
    if (!describe_heads(view, sizes, stride_bytes)) {
        return false;
    }
    const auto column = static_cast<cuuint64_t>(view.box_dims);
    const cuuint64_t columns = sizes[0] / column;
    const cuuint64_t column_sizes[5] = {column, sizes[1], columns, sizes[2], sizes[3]};
    const cuuint64_t column_strides[4] = {stride_bytes[0], column * kElementBytes, stride_bytes[1],
                                          stride_bytes[2]};
    const cuuint32_t box[5] = {static_cast<cuuint32_t>(column),
                               static_cast<cuuint32_t>(view.box_rows),
                               static_cast<cuuint32_t>(columns), 1, 1};
    return encode<5>(type_of(view.dtype), view.base, column_sizes, column_strides, box,
                     view.box_dims * kElementBytes, map);
}

bool encode_packed_rows(const TensorView& view, int group, int queries, CUtensorMap& map) {
    const int64_t counts[4] = {group, view.length, view.heads / group, view.batch};
    const int64_t strides[4] = {view.strides.head, view.strides.seq, group * view.strides.head,
                                view.strides.batch};
    cuuint64_t sizes[5];
    cuuint64_t stride_bytes[4];
    if (!describe<4>(view, counts, strides, sizes, stride_bytes)) {
        return false;
    }
    const cuuint32_t box[5] = {static_cast<cuuint32_t>(view.box_dims),
                               static_cast<cuuint32_t>(group), static_cast<cuuint32_t>(queries), 1,
                               1};
    return encode<5>(type_of(view.dtype), view.base, sizes, stride_bytes, box,
                     view.box_dims * kElementBytes, map);
}

void encode_byte_tensor_map(const void* base, const int64_t (&shape)[4], int box_columns,
                            int box_rows, CUtensorMap& map) {
    cuuint64_t sizes[4];
    cuuint64_t stride_bytes[3];
    cuuint64_t bytes = 1;
    for (int i = 0; i < 4; ++i) {
        sizes[i] = static_cast<cuuint64_t>(shape[3 - i]);
        bytes *= sizes[i];
        if (i < 3) {
            stride_bytes[i] = bytes;
        }
    }
    const cuuint32_t box[4] = {static_cast<cuuint32_t>(box_columns),
                               static_cast<cuuint32_t>(box_rows), 1, 1};
    encode<4>(CU_TENSOR_MAP_DATA_TYPE_UINT8, base, sizes, stride_bytes, box, box_columns, map);
}

}  // namespace flashbench::cuda::sm90
