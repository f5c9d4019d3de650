// Head vectors in global memory with any strides, as all CUDA kernels read and write them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "../attention.h"
#include "constants.h"

namespace flashbench::cuda {

// Whether every chunk of 8 dims is contiguous, and 16-byte aligned in every row.
inline bool moves_in_vectors(const void* base, const Strides& strides, int64_t batch, int64_t heads,
                             int64_t length) {
    const auto aligned = [](int64_t count, int64_t stride) {
        return count <= 1 || stride % kChunkElements == 0;
    };
    return strides.dim == 1 && reinterpret_cast<uintptr_t>(base) % kChunkBytes == 0 &&
           aligned(batch, strides.batch) && aligned(heads, strides.head) &&
           aligned(length, strides.seq);
}

// The same for each tensor of a problem.
struct InVectors {
    bool q;
    bool k;
    bool v;
    bool out;
};
inline InVectors in_vectors(const Attention& problem) {
    const int64_t batch = problem.batch;
    return {
        moves_in_vectors(problem.q, problem.q_strides, batch, problem.heads, problem.q_len),
        moves_in_vectors(problem.k, problem.k_strides, batch, problem.kv_heads, problem.k_len),
        moves_in_vectors(problem.v, problem.v_strides, batch, problem.kv_heads, problem.k_len),
        moves_in_vectors(problem.out, problem.out_strides, batch, problem.heads, problem.q_len),
    };
}

// Rows in global memory. `vectors`: every chunk of every row is contiguous and 16-byte aligned.
template <typename T>
struct Rows {
    T* first;
    int64_t seq_stride;
    int64_t dim_stride;
    int count;
    int head_dim;
    bool vectors;

    __device__ __forceinline__ T* at(int row) const { return first + row * seq_stride; }
};

// The address of the first dim of a packed row. Packed rows are those of all query heads of a key head:
// the heads of the first query, then those of the next one.
template <typename T>
__device__ __forceinline__ T* packed_row(const void* base, const Strides& strides, unsigned batch,
                                         unsigned kv_head, unsigned group, unsigned row) {
    const unsigned position = group == 1 ? row : row / group;
    const unsigned head = kv_head * group + (row - position * group);
    return static_cast<T*>(const_cast<void*>(base)) + batch * strides.batch +
           head * strides.head + position * strides.seq;
}

// The packed rows of a key head; otherwise as Rows.
template <typename T>
struct PackedRows {
    T* first;  // of the tensor
    Strides strides;
    unsigned batch;
    unsigned kv_head;
    unsigned group;  // query heads of the key head
    int64_t dim_stride;
    int count;
    int head_dim;
    bool vectors;

    __device__ __forceinline__ T* at(int row) const {
        return packed_row<T>(first, strides, batch, kv_head, group, row);
    }
};

template <typename T>
__device__ __forceinline__ Rows<T> rows_of(const void* base, const Strides& strides, int64_t batch,
                                           int64_t head, int64_t count, int64_t head_dim,
                                           bool vectors) {
    T* first = static_cast<T*>(const_cast<void*>(base)) + batch * strides.batch +
               head * strides.head;
    return {first, strides.seq, strides.dim, static_cast<int>(count), static_cast<int>(head_dim),
            vectors};
}

// The rows of one head of each tensor of a problem.
template <typename T>
__device__ __forceinline__ Rows<const T> query_rows(const Attention& problem, int64_t batch,
                                                    int64_t head, bool vectors) {
    return rows_of<const T>(problem.q, problem.q_strides, batch, head, problem.q_len,
                            problem.head_dim, vectors);
}

template <typename T>
__device__ __forceinline__ Rows<const T> key_rows(const Attention& problem, int64_t batch,
                                                  int64_t kv_head, bool vectors) {
    return rows_of<const T>(problem.k, problem.k_strides, batch, kv_head, problem.k_len,
                            problem.head_dim, vectors);
}

template <typename T>
__device__ __forceinline__ Rows<const T> value_rows(const Attention& problem, int64_t batch,
                                                    int64_t kv_head, bool vectors) {
    return rows_of<const T>(problem.v, problem.v_strides, batch, kv_head, problem.k_len,
                            problem.head_dim, vectors);
}

template <typename T>
__device__ __forceinline__ Rows<T> out_rows(const Attention& problem, int64_t batch, int64_t head,
                                            bool vectors) {
    return rows_of<T>(problem.out, problem.out_strides, batch, head, problem.q_len,
                      problem.head_dim, vectors);
}

// The packed rows of one key head.
template <typename T>
__device__ __forceinline__ PackedRows<T> packed_rows_of(const Attention& problem, const void* base,
                                                        const Strides& strides, unsigned batch,
                                                        unsigned kv_head, unsigned group,
                                                        bool vectors) {
    return {static_cast<T*>(const_cast<void*>(base)),
            strides,
            batch,
            kv_head,
            group,
            strides.dim,
            static_cast<int>(problem.q_len * group),
            static_cast<int>(problem.head_dim),
            vectors};
}

template <typename T>
__device__ __forceinline__ PackedRows<const T> packed_query_rows(const Attention& problem,
                                                                 unsigned batch, unsigned kv_head,
                                                                 unsigned group, bool vectors) {
    return packed_rows_of<const T>(problem, problem.q, problem.q_strides, batch, kv_head, group,
                                   vectors);
}

template <typename T>
__device__ __forceinline__ PackedRows<T> packed_out_rows(const Attention& problem, unsigned batch,
                                                         unsigned kv_head, unsigned group,
                                                         bool vectors) {
    return packed_rows_of<T>(problem, problem.out, problem.out_strides, batch, kv_head, group,
                             vectors);
}

// One chunk, element by element, for rows whose chunks are not contiguous or not aligned.
template <typename T>
__device__ __forceinline__ uint4 gather_chunk(const T* source, int64_t dim_stride) {
    const auto* bits = reinterpret_cast<const uint16_t*>(source);
    uint32_t pairs[kChunkElements / 2];
#pragma unroll
    for (int i = 0; i < kChunkElements / 2; ++i) {
        const uint32_t low = bits[(2 * i) * dim_stride];
        const uint32_t high = bits[(2 * i + 1) * dim_stride];
        pairs[i] = low | high << 16;
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

template <typename T>
__device__ __forceinline__ void scatter_chunk(T* target, int64_t dim_stride, uint4 chunk) {
    auto* bits = reinterpret_cast<uint16_t*>(target);
    const uint32_t pairs[kChunkElements / 2] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
    for (int i = 0; i < kChunkElements; ++i) {
        bits[i * dim_stride] = static_cast<uint16_t>(pairs[i / 2] >> (i % 2 * 16));
    }
}

// The chunk of `row` from `column` on.
template <typename T>
__device__ __forceinline__ uint4 load_chunk(const Rows<const T>& rows, int row, int column) {
    const T* source = rows.first + row * rows.seq_stride + column * rows.dim_stride;
    return rows.vectors ? *reinterpret_cast<const uint4*>(source)
                        : gather_chunk(source, rows.dim_stride);
}

}  // namespace flashbench::cuda
