// Tensor maps: descriptions of tensors for TMA.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "../../attention.h"

namespace flashbench::cuda::sm90 {

// A tensor of head vectors as TMA reads it: boxes of `box_rows` rows by `box_dims` elements of one head,
// stored in shared memory with the swizzle of that width (64 or 32 elements), with zeros past the last
// row and dim.
struct TensorView {
    const void* base;
    Strides strides;
    int64_t batch;
    int64_t heads;
    int64_t length;
    int64_t head_dim;
    Dtype dtype;
    int box_dims;
    int box_rows;
};

// False if TMA does not support the strides: a head vector that is not contiguous, an address or stride
// that is no multiple of 16 bytes, a negative stride, or one of zero that the driver refuses. Throws
// std::runtime_error if it refuses for another reason.
bool encode_tensor_map(const TensorView& view, CUtensorMap& map);

// The same with boxes of whole rows: all dims, of which `box_dims` must divide the number, in columns of
// `box_dims`, each for all rows before the next one. For cp_async_bulk_tensor_5d.
bool encode_whole_rows(const TensorView& view, CUtensorMap& map);

// The same with boxes of `queries` queries of all `group` heads of a key head (packed rows, ../rows.h). For
// cp_async_bulk_tensor_5d: dims, heads of the group, queries, key heads, batch.
bool encode_packed_rows(const TensorView& view, int group, int queries, CUtensorMap& map);

// The maps of k and v with the boxes of a tile; either both or none are valid.
template <typename Tile>
bool encode_keys_and_values(const Attention& problem, CUtensorMap& key, CUtensorMap& value) {
    const auto encode = [&problem](CUtensorMap& map, const void* base, const Strides& strides) {
        return encode_tensor_map({base, strides, problem.batch, problem.kv_heads, problem.k_len,
                                  problem.head_dim, problem.dtype, Tile::kBoxDims, Tile::kKeys},
                                 map);
    };
    return encode(key, problem.k, problem.k_strides) &&
           encode(value, problem.v, problem.v_strides);
}

// Those of q, k and v.
template <typename Tile>
bool encode_tensor_maps(const Attention& problem, CUtensorMap& query, CUtensorMap& key,
                        CUtensorMap& value) {
    return encode_tensor_map({problem.q, problem.q_strides, problem.batch, problem.heads,
                              problem.q_len, problem.head_dim, problem.dtype, Tile::kBoxDims,
                              Tile::kRows},
                             query) &&
           encode_keys_and_values<Tile>(problem, key, value);
}

// A contiguous tensor of bytes, (batch, heads, rows, columns): boxes of `box_rows` rows by
// `box_columns` columns of one head, with the swizzle of that width (128 or 64 bytes), zeros past
// the last row. Throws std::runtime_error when the driver refuses.
void encode_byte_tensor_map(const void* base, const int64_t (&shape)[4], int box_columns,
                            int box_rows, CUtensorMap& map);

}  // namespace flashbench::cuda::sm90
