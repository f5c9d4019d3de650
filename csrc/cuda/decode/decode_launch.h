// The arguments of the decode kernel and of the one that merges its parts.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "../../attention.h"
#include "../rows.h"
#include "split.h"

namespace flashbench::cuda::decode {

// Counts are 32-bit, because a 64-bit division takes longer than a copy.
struct DecodeLaunch {
    CUtensorMap key;
    CUtensorMap value;
    Attention problem;
    Division division;
    // Values, base and sum of each row (of all heads) and cluster; null if a tile has one cluster.
    float* partial_values;
    float2* partial_statistics;
    int barrier_offset;  // in shared memory, of the first mbarrier
    float scale_log2;    // scale * log2(e), positive
    int rows;            // of a key head
    int seen_by_all;     // if causal, the number of keys that every row sees
    unsigned row_tiles;
    unsigned kv_heads;
    unsigned group;      // query heads of a key head
    InVectors in_vectors;  // as in Rows
    bool whole_rows;       // the tensor maps are those of encode_whole_rows
    bool evict_first;      // L2 drops what tensor maps copy before other lines
};

}  // namespace flashbench::cuda::decode
