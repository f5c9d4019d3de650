// Compares the choice of kernels and tiles with what was measured on an H200, a few on an H100 (132 SMs, bf16, graph
// replays, microseconds; docs/lab/cuda-kernels.md, "Short sequences, few queries and late bases" and
// "Packed rows"): exits with 1 and a line about each cell where the chosen one takes more than 5 %
// longer than the best.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "../../../csrc/cuda/families.h"
#include "../../../csrc/cuda/sm90/cost.h"
#include "../../../csrc/cuda/sm90/short_shapes.h"

using namespace flashbench;
using namespace flashbench::cuda;

namespace {

constexpr int kSms = 132;
using Times = std::map<std::string, double>;  // microseconds by kernel

struct Cell {
    int64_t batch, heads, q_len, k_len;
    bool causal;
    // By kernel: "keys/few keys" of the short one, "cluster" if that divides the keys, the rows of the
    // main one, the names of others.
    Times us;
};

const std::vector<Cell> kCells = {
    {16, 16, 577, 577, false, {{"128/128", 66.50}, {"128/80", 64.04}, {"128", 72.35}}},
    {16, 16, 577, 577, true, {{"128/128", 50.15}, {"128/64", 47.86}, {"128", 53.39}}},
    {8, 12, 1024, 1024, false, {{"128/128", 61.96}, {"192", 65.81}, {"128", 63.18}}},
    {8, 12, 1024, 1024, true, {{"128/128", 39.39}, {"128/64", 39.02}, {"192", 44.47}, {"128", 43.77}}},
    {32, 16, 197, 197, false, {{"112/112", 26.77}, {"128/80", 26.89}}},
    {32, 16, 197, 197, true, {{"128/128", 26.57}, {"128/64", 25.88}}},
    {8, 12, 197, 197, false, {{"112/112", 7.50}, {"128/80", 7.41}}},
    {8, 12, 197, 197, true, {{"128/128", 7.29}, {"128/64", 7.45}}},
    {16, 12, 384, 384, false, {{"192", 20.85}, {"128", 26.03}}},
    {16, 12, 384, 384, true, {{"128/128", 19.81}, {"128/64", 19.72}, {"192", 21.26}}},
    {32, 12, 128, 128, true, {{"64/64", 9.96}, {"128/64", 9.94}}},
    {8, 16, 512, 512, true, {{"128/128", 18.88}, {"128/64", 18.92}}},
    {16, 16, 256, 256, true, {{"128/128", 14.51}, {"128/64", 14.10}}},
    {8, 12, 768, 768, false, {{"192", 32.68}}},
    {8, 12, 768, 768, true, {{"128/128", 26.70}, {"128/64", 26.03}}},
    {16, 16, 1024, 1024, true, {{"128/128", 105.71}, {"128/64", 103.39}, {"128", 108.46}}},
    {2, 16, 1536, 1536, true, {{"192", 28.48}, {"128", 31.34}}},
    {1, 20, 1500, 1500, false, {{"192", 34.41}, {"128", 32.48}}},
    {1, 20, 1500, 1500, true, {{"192", 22.24}, {"128", 20.22}}},
    {2, 10, 4096, 4096, false, {{"192", 157.81}, {"128", 180.08}}},
    {2, 10, 4096, 4096, true, {{"192", 90.51}, {"128", 103.14}}},
    {1, 16, 4096, 4096, true, {{"192", 78.40}}},
    {2, 10, 4096, 77, false, {{"112/112", 12.17}, {"80/80", 11.42}, {"80/64", 11.87}}},
    {2, 10, 4096, 77, true, {{"64/64", 14.16}, {"80/80", 11.66}, {"80/64", 12.07}}},
    {4, 16, 1024, 1024, false, {{"128/128", 40.81}, {"192", 38.66}}},
    {6, 16, 1024, 1024, false, {{"128/128", 60.16}, {"128", 62.67}}},
    {2, 16, 1024, 1024, false, {{"128/128", 21.76}, {"128", 23.16}}},
    {16, 16, 1024, 1024, false, {{"128/128", 148.16}, {"192", 144.65}}},
    {3, 16, 900, 900, false, {{"128/80", 32.16}, {"192", 28.05}}},
    {1, 20, 1000, 1000, false, {{"128/128", 18.45}, {"192", 15.41}}},
    {4, 16, 777, 777, false, {{"128/80", 31.89}, {"192", 36.86}}},
    {8, 12, 512, 512, false, {{"128/128", 19.72}, {"128", 19.93}}},
    {32, 16, 320, 320, false, {{"128/80", 44.68}, {"192", 49.13}}},
    {1, 8, 128, 8192, false, {{"main", 16.53}, {"decode", 17.81}, {"packed", 15.32}}},
    {16, 16, 1, 1, false, {{"simt", 1.89}, {"64/64", 3.61}}},
    {1, 8, 16, 4, false, {{"simt", 2.09}, {"split", 2.89}}},
    {16, 16, 16, 4, false, {{"simt", 2.77}, {"64/64", 3.71}}},
    {16, 16, 64, 4, false, {{"simt", 4.70}, {"64/64", 4.07}}},
    {16, 16, 1, 8, false, {{"simt", 2.70}, {"64/64", 3.64}}},
    {16, 16, 1, 32, false, {{"simt", 2.95}, {"64/64", 3.68}}},
    {16, 16, 4, 16, false, {{"simt", 5.55}, {"64/64", 3.63}}},
    {1, 8, 64, 16, false, {{"simt", 3.60}, {"split", 3.10}}},
    {8, 12, 16, 16, true, {{"simt", 6.76}, {"split", 3.21}}},
};

// Chunks of queries, aligned at the bottom right if causal, by family.
struct Chunk {
    int64_t batch, heads, kv_heads, q_len, k_len, head_dim;
    bool causal;
    Times us;
};

const std::vector<Chunk> kChunks = {
    {1, 32, 8, 64, 32768, 128, true, {{"packed", 61.45}, {"decode", 144.98}, {"short", 127.35}}},
    {1, 32, 8, 64, 16384, 128, true, {{"packed", 36.90}, {"decode", 82.07}, {"short", 67.26}}},
    {1, 32, 8, 64, 8192, 128, true, {{"packed", 25.02}, {"decode", 49.97}, {"short", 36.82}}},
    {1, 32, 8, 64, 6000, 128, true, {{"packed", 20.96}, {"short", 27.69}}},
    {1, 32, 8, 64, 4096, 128, true, {{"packed", 18.29}, {"decode", 30.54}, {"short", 20.58}}},
    {1, 32, 8, 64, 3000, 128, true, {{"packed", 17.56}, {"short", 16.74}}},
    {1, 32, 8, 64, 2048, 128, true, {{"packed", 15.14}, {"short", 12.92}}},
    {1, 32, 8, 64, 1024, 128, true, {{"packed", 13.45}, {"short", 9.07}}},
    {1, 32, 8, 20, 4096, 128, true, {{"packed", 15.95}, {"decode", 19.32}, {"short", 19.88}}},
    {1, 32, 8, 16, 4096, 128, true, {{"packed", 14.57}, {"decode", 15.00}}},
    {1, 32, 8, 16, 8192, 128, true, {{"packed", 17.29}, {"decode", 20.64}}},
    {1, 32, 8, 16, 32768, 128, true, {{"packed", 43.29}, {"decode", 47.53}}},
    {1, 32, 8, 8, 32768, 128, true, {{"packed", 43.68}, {"decode", 43.98}}},
    {1, 32, 8, 8, 131072, 128, true, {{"packed", 130.86}, {"decode", 127.36}}},
    {1, 32, 8, 32, 2048, 128, true, {{"packed", 14.20}, {"decode", 15.28}, {"short", 12.76}}},
    {1, 32, 8, 32, 4096, 128, true, {{"packed", 15.95}, {"decode", 20.34}, {"short", 20.30}}},
    {1, 32, 8, 32, 8192, 128, true, {{"packed", 20.03}, {"decode", 30.88}, {"short", 36.46}}},
    {1, 32, 8, 128, 2048, 128, true, {{"packed", 18.43}, {"short", 13.52}}},
    {1, 32, 8, 128, 4096, 128, true, {{"packed", 24.87}, {"short", 21.27}}},
    {1, 32, 8, 128, 8192, 128, true, {{"packed", 36.51}, {"short", 37.03}}},
    {1, 32, 8, 192, 8192, 128, true, {{"packed", 48.86}, {"short", 66.15}}},
    {1, 32, 8, 256, 2048, 128, true, {{"packed", 23.21}, {"short", 21.45}}},
    {1, 32, 8, 256, 4096, 128, true, {{"packed", 34.68}, {"short", 36.27}}},
    {1, 32, 8, 256, 8192, 128, true, {{"packed", 59.00}, {"short", 67.34}}},
    {1, 32, 8, 256, 32768, 128, true, {{"packed", 211.38}, {"short", 271.72}}},
    {1, 32, 8, 300, 4096, 128, true, {{"packed", 43.46}, {"short", 85.45}, {"main", 50.50}}},
    {1, 32, 8, 300, 8192, 128, true, {{"packed", 73.64}, {"short", 167.30}, {"main", 91.87}}},
    {1, 32, 8, 400, 8192, 128, true, {{"packed", 90.96}, {"short", 168.38}, {"main", 92.07}}},
    {4, 32, 8, 64, 2048, 128, true, {{"packed", 23.98}, {"short", 22.78}}},
    {4, 32, 8, 64, 8192, 128, true, {{"packed", 59.80}, {"short", 70.27}, {"main", 74.01}}},
    {2, 32, 8, 64, 8192, 128, true, {{"packed", 37.77}, {"short", 38.17}}},
    {2, 32, 8, 128, 4096, 128, true, {{"packed", 35.72}, {"short", 38.34}}},
    {3, 32, 8, 128, 8192, 128, true, {{"packed", 86.27}, {"short", 171.30}, {"main", 93.18}}},
    {1, 28, 4, 64, 4096, 128, true, {{"packed", 18.58}, {"short", 20.66}}},
    {1, 28, 4, 128, 8192, 128, true, {{"packed", 38.34}, {"short", 36.45}}},
    {1, 28, 4, 300, 8192, 128, true, {{"packed", 68.74}, {"short", 163.21}, {"main", 90.59}}},
    {1, 64, 8, 64, 4096, 128, true, {{"packed", 24.65}, {"short", 21.23}}},
    {1, 64, 8, 64, 16384, 128, true, {{"packed", 60.68}, {"short", 67.89}}},
    {1, 16, 1, 64, 2048, 128, true, {{"packed", 14.23}, {"short", 13.14}}},
    {1, 16, 1, 64, 8192, 128, true, {{"packed", 18.82}, {"decode", 30.23}, {"short", 36.72}}},
    {1, 16, 2, 128, 4096, 128, true, {{"packed", 18.04}, {"short", 20.90}}},
    {1, 8, 8, 64, 2048, 128, true, {{"packed", 13.12}, {"decode", 10.93}, {"short", 13.17}}},
    {1, 8, 8, 64, 4096, 128, true, {{"packed", 14.54}, {"decode", 14.86}, {"short", 20.56}}},
    {1, 8, 8, 64, 8192, 128, true, {{"packed", 17.41}, {"decode", 20.28}, {"short", 36.01}}},
    {1, 8, 8, 64, 16384, 128, true, {{"packed", 28.14}, {"decode", 31.41}, {"short", 67.00}}},
    {1, 8, 8, 64, 65536, 128, true, {{"packed", 72.36}, {"decode", 78.58}, {"short", 247.41}}},
    {1, 16, 16, 64, 4096, 128, true, {{"packed", 16.54}, {"decode", 20.21}, {"short", 20.54}}},
    {1, 16, 16, 64, 16384, 128, true, {{"packed", 42.68}, {"decode", 48.83}, {"short", 66.85}}},
    {1, 32, 32, 64, 8192, 128, true, {{"packed", 43.20}, {"short", 37.72}}},
    {1, 32, 32, 64, 16384, 128, true, {{"packed", 72.24}, {"short", 68.22}}},
    {1, 32, 32, 128, 8192, 128, true, {{"packed", 45.57}, {"short", 44.74}}},
    {1, 8, 8, 256, 4096, 128, true, {{"packed", 18.62}, {"short", 20.22}}},
    {1, 8, 8, 256, 16384, 128, true, {{"packed", 37.15}, {"short", 66.60}}},
    {1, 8, 8, 512, 8192, 128, true, {{"packed", 37.16}, {"short", 36.78}}},
    {1, 8, 8, 1024, 8192, 128, true, {{"packed", 60.16}, {"short", 66.82}, {"main", 90.07}}},
    {1, 16, 16, 512, 8192, 128, true, {{"packed", 59.65}, {"short", 68.09}, {"main", 90.83}}},
    {1, 4, 4, 1024, 16384, 128, true, {{"packed", 62.94}, {"short", 67.11}, {"main", 172.53}}},
    {1, 2, 2, 1000, 8192, 128, true, {{"packed", 26.33}, {"short", 35.72}, {"main", 90.08}}},
    {1, 8, 8, 128, 4096, 64, true, {{"packed", 13.43}, {"decode", 13.04}, {"short", 16.74}}},
    {1, 8, 8, 128, 8192, 64, true, {{"packed", 15.88}, {"decode", 19.94}, {"short", 29.30}}},
    {1, 8, 8, 64, 16384, 64, true, {{"packed", 18.03}, {"decode", 19.92}, {"short", 53.61}}},
    {1, 32, 8, 16, 8192, 64, true, {{"packed", 14.24}, {"decode", 13.24}}},
    {1, 32, 8, 64, 2048, 64, true, {{"packed", 12.66}, {"short", 10.19}}},
    {1, 32, 8, 64, 4096, 64, true, {{"packed", 15.11}, {"decode", 16.59}, {"short", 16.00}}},
    {1, 32, 8, 64, 8192, 64, true, {{"packed", 19.78}, {"decode", 26.77}, {"short", 29.09}}},
    {1, 32, 8, 64, 16384, 64, true, {{"packed", 29.87}, {"decode", 46.95}, {"short", 50.40}}},
    {1, 32, 8, 128, 4096, 64, true, {{"packed", 20.28}, {"short", 15.88}}},
    {1, 32, 8, 128, 8192, 64, true, {{"packed", 30.07}, {"short", 27.10}}},
    {1, 32, 8, 128, 16384, 64, true, {{"packed", 54.87}, {"short", 50.60}}},
    {1, 32, 8, 256, 8192, 64, true, {{"packed", 47.64}, {"short", 41.25}}},
    {1, 32, 8, 256, 32768, 64, true, {{"packed", 171.43}, {"short", 156.12}}},
    {1, 40, 8, 100, 10000, 64, true, {{"packed", 38.87}, {"short", 50.43}}},
    {1, 16, 4, 20, 4096, 256, true, {{"packed", 22.30}, {"decode", 22.24}, {"main", 60.75}}},
    {1, 16, 4, 16, 4096, 256, true, {{"packed", 20.08}, {"decode", 21.85}, {"main", 60.97}}},
    {1, 16, 4, 64, 512, 256, true, {{"packed", 13.41}, {"main", 13.76}}},
    {1, 16, 4, 64, 1024, 256, true, {{"packed", 16.44}, {"main", 20.39}}},
    {1, 16, 4, 64, 2048, 256, true, {{"packed", 17.67}, {"main", 33.68}}},
    {1, 16, 4, 64, 8192, 256, true, {{"packed", 27.70}, {"main", 114.51}}},
    {1, 16, 4, 256, 1024, 256, true, {{"packed", 20.72}, {"main", 26.42}}},
    {1, 16, 4, 512, 1024, 256, true, {{"packed", 26.12}, {"main", 26.46}}},
    {1, 16, 4, 512, 8192, 256, true, {{"packed", 99.02}, {"main", 154.26}}},
    {1, 16, 4, 1024, 4096, 256, true, {{"packed", 104.94}, {"main", 87.26}}},
    {1, 8, 4, 64, 8192, 256, true, {{"packed", 27.62}, {"main", 115.89}}},
    {1, 8, 1, 64, 2048, 256, true, {{"packed", 19.36}, {"main", 33.60}}},
    {1, 16, 16, 64, 1024, 256, true, {{"packed", 14.40}, {"main", 20.62}}},
    {1, 16, 16, 64, 8192, 256, true, {{"packed", 43.93}, {"main", 116.06}}},
    {1, 16, 16, 256, 4096, 256, true, {{"packed", 38.64}, {"main", 82.08}}},
    {1, 32, 32, 128, 4096, 256, true, {{"packed", 49.75}, {"main", 82.81}}},
    {1, 16, 16, 512, 8192, 256, true, {{"packed", 101.06}, {"main", 156.12}}},
    {2, 16, 4, 256, 4096, 256, true, {{"packed", 57.72}, {"main", 83.57}}},
    {1, 32, 8, 64, 4096, 128, false, {{"packed", 17.10}, {"short", 20.17}, {"main", 21.13}}},
    {1, 32, 8, 64, 8192, 128, false, {{"packed", 23.41}, {"short", 36.32}, {"main", 29.65}}},
    {1, 32, 8, 64, 16384, 128, false, {{"packed", 35.13}, {"main", 46.83}}},
    {1, 32, 8, 128, 4096, 128, false, {{"packed", 23.00}, {"short", 20.83}, {"main", 23.10}}},
    {1, 32, 8, 128, 16384, 128, false, {{"packed", 58.49}, {"short", 67.37}, {"main", 57.78}}},
    {1, 32, 8, 256, 4096, 128, false, {{"packed", 33.38}, {"short", 35.58}, {"main", 33.68}}},
    {1, 32, 8, 256, 16384, 128, false, {{"packed", 101.09}, {"short", 128.12}, {"main", 100.56}}},
    {1, 32, 8, 512, 8192, 128, false, {{"packed", 101.55}, {"main", 94.73}}},
    {1, 28, 4, 100, 8192, 128, false, {{"packed", 30.02}, {"short", 35.99}, {"main", 30.98}}},
    {1, 8, 8, 64, 8192, 128, false, {{"packed", 16.21}, {"short", 35.75}, {"main", 18.13}}},
    {1, 8, 8, 256, 8192, 128, false, {{"packed", 23.58}, {"short", 36.70}, {"main", 23.84}}},
    {1, 5, 5, 4096, 4096, 128, false, {{"packed", 103.45}, {"main", 68.75}}},
    {1, 8, 8, 1024, 8192, 128, false, {{"packed", 56.50}, {"main", 55.86}}},
    {1, 32, 8, 16, 4096, 128, false, {{"packed", 13.53}, {"decode", 14.04}}},
    {1, 32, 8, 16, 8192, 128, false, {{"packed", 16.09}, {"decode", 19.84}}},
    {1, 32, 8, 16, 32768, 128, false, {{"packed", 42.85}, {"decode", 45.95}}},
    {16, 32, 8, 16, 4096, 128, false, {{"packed", 71.52}, {"decode", 70.73}}},
    {1, 24, 8, 16, 6000, 128, false, {{"packed", 14.69}, {"decode", 14.60}}},
    {1, 32, 8, 128, 16384, 256, false, {{"packed", 98.02}, {"main", 113.10}}},
    {1, 8, 8, 64, 8192, 64, false, {{"packed", 13.46}, {"decode", 11.99}, {"main", 15.79}}},
    {1, 8, 8, 128, 8192, 64, false, {{"packed", 15.36}, {"decode", 17.94}, {"main", 16.56}}},
    {1, 8, 8, 256, 8192, 64, false, {{"packed", 18.87}, {"decode", 23.59}, {"main", 21.27}}},
    {1, 16, 16, 128, 4096, 64, false, {{"packed", 14.32}, {"decode", 15.08}, {"main", 15.98}, {"short", 16.31}}},
    {1, 32, 8, 64, 8192, 64, false, {{"packed", 19.04}, {"decode", 23.68}, {"main", 22.55}, {"short", 28.80}}},
    {1, 32, 8, 128, 8192, 64, false, {{"packed", 28.76}, {"main", 27.21}, {"short", 27.30}}},
    {1, 16, 4, 16, 8192, 256, false, {{"packed", 21.84}, {"decode", 35.20}, {"main", 33.93}}},
    {1, 16, 4, 64, 2048, 256, false, {{"packed", 17.16}, {"main", 20.88}}},
    {1, 16, 4, 64, 8192, 256, false, {{"packed", 26.95}, {"main", 34.44}}},
    {1, 16, 4, 256, 4096, 256, false, {{"packed", 35.09}, {"main", 37.99}}},
    {1, 10, 10, 3000, 3000, 64, false, {{"packed", 66.49}, {"main", 52.22}}},
    {1, 3, 3, 4096, 4096, 64, false, {{"packed", 36.19}, {"main", 30.73}, {"short", 33.79}}},
    // Head dims that packed tiles round up, and groups that do not divide them; the last six on an H100.
    {1, 3, 3, 4096, 4096, 128, false, {{"packed", 45.01}, {"main", 46.63}, {"short", 80.97}}},
    {1, 5, 5, 2048, 8192, 128, false, {{"packed", 67.83}, {"main", 66.44}}},
    {1, 5, 5, 2048, 16384, 120, false, {{"packed", 131.12}, {"main", 128.28}}},
    {2, 3, 3, 3000, 3000, 128, false, {{"packed", 83.14}, {"main", 52.21}, {"short", 76.91}}},
    {1, 32, 8, 512, 16384, 96, false, {{"packed", 205.11}, {"main", 171.79}}},
    {1, 32, 8, 256, 16384, 96, false, {{"packed", 107.86}, {"main", 93.84}}},
    {1, 32, 8, 256, 16384, 72, false, {{"packed", 107.49}, {"main", 99.59}}},
    {1, 32, 8, 256, 8192, 80, false, {{"packed", 57.80}, {"main", 48.77}}},
    {1, 32, 8, 128, 8192, 112, false, {{"packed", 36.12}, {"main", 34.06}}},
    {1, 32, 8, 64, 8192, 96, false, {{"packed", 23.54}, {"main", 27.73}, {"short", 36.72}, {"decode", 46.32}}},
    {1, 32, 8, 128, 8192, 96, true, {{"packed", 36.92}, {"main", 81.19}, {"short", 36.78}}},
    {1, 32, 8, 256, 16384, 104, true, {{"packed", 115.73}, {"main", 168.58}}},
    {1, 32, 8, 256, 16384, 160, false, {{"packed", 186.49}, {"main", 122.90}}},
    {1, 32, 8, 128, 8192, 192, false, {{"packed", 59.62}, {"main", 49.82}}},
    {1, 32, 8, 64, 8192, 192, false, {{"packed", 36.21}, {"main", 38.23}}},
    {1, 32, 8, 256, 16384, 224, true, {{"packed", 186.73}, {"main", 287.82}}},
    {1, 32, 8, 128, 8192, 160, true, {{"packed", 61.22}, {"main", 113.31}}},
    {1, 24, 8, 200, 8192, 144, false, {{"packed", 65.07}, {"main", 50.37}}},
    {1, 24, 8, 200, 8192, 96, false, {{"packed", 40.62}, {"main", 38.46}}},
    {1, 24, 8, 400, 8192, 160, false, {{"packed", 113.63}, {"main", 92.00}}},
    {1, 28, 4, 100, 8192, 192, false, {{"packed", 45.85}, {"main", 43.84}}},
    {1, 20, 4, 64, 16384, 224, false, {{"packed", 49.86}, {"main", 92.58}}},
    {1, 24, 8, 64, 8192, 144, false, {{"packed", 38.01}, {"main", 39.07}}},
    {1, 12, 4, 200, 8192, 96, false, {{"packed", 26.61}, {"main", 25.16}}},
    // Narrower tiles of the main kernel.
    {8, 16, 16, 512, 512, 64, false, {{"main", 23.30}, {"short", 23.56}}},
    {2, 8, 8, 1024, 1024, 32, true, {{"main", 12.02}, {"short", 14.73}}},
    {4, 16, 16, 1024, 1024, 32, true, {{"main", 27.39}, {"short", 27.07}}},
    {1, 8, 8, 2048, 2048, 32, true, {{"main", 19.49}, {"short", 18.46}}},
    {8, 12, 12, 512, 512, 32, true, {{"main", 16.60}, {"short", 14.66}}},
    {4, 16, 16, 1024, 1024, 32, false, {{"main", 33.85}, {"short", 42.28}}},
    {8, 12, 12, 512, 512, 32, false, {{"main", 17.72}, {"short", 20.49}}},
    {1, 8, 8, 2048, 2048, 32, false, {{"main", 19.66}, {"short", 25.14}}},
    {2, 8, 8, 1024, 1024, 32, false, {{"main", 11.98}, {"short", 15.05}}},
    {32, 16, 16, 256, 256, 32, false, {{"main", 25.87}, {"short", 26.71}}},
    {8, 12, 12, 512, 512, 48, false, {{"main", 19.77}, {"short", 21.45}}},
    {16, 16, 16, 577, 577, 48, false, {{"main", 65.57}, {"short", 64.29}}},
};

Attention problem_of(const Chunk& chunk) {
    Attention problem{};
    problem.batch = chunk.batch;
    problem.heads = chunk.heads;
    problem.kv_heads = chunk.kv_heads;
    problem.q_len = chunk.q_len;
    problem.k_len = chunk.k_len;
    problem.head_dim = chunk.head_dim;
    problem.scale = 0.125f;
    problem.causal = chunk.causal;
    problem.causal_offset = chunk.causal ? chunk.k_len - chunk.q_len : 0;
    return problem;
}

Attention problem_of(const Cell& cell) {
    Attention problem = problem_of(
        Chunk{cell.batch, cell.heads, cell.heads, cell.q_len, cell.k_len, 64, cell.causal, {}});
    problem.causal_offset = 0;
    return problem;
}

const char* family_name(Kernels kernels) {
    switch (kernels) {
        case Kernels::simt:
            return "simt";
        case Kernels::split:
            return "split";
        case Kernels::decode:
            return "decode";
        case Kernels::packed:
            return "packed";
        case Kernels::short_tiles:
            return "short";
        case Kernels::main:
        case Kernels::wide:
            return "main";
        default:
            return "another";
    }
}

// The name of a cell's chosen kernel.
std::string chosen(const Attention& problem) {
    std::string name;
    const Kernels kernels = kernels_for(problem, true, kSms);
    switch (kernels) {
        case Kernels::main:
            return sm90::predicted_main_time(problem, 192, kSms) <=
                           sm90::predicted_main_time(problem, 128, kSms)
                       ? "192"
                       : "128";
        case Kernels::short_tiles:
            sm90::take_short_shape(problem, kSms, [&name](auto shape) {
                name = shape.kParts > 1 ? "cluster"
                                        : std::to_string(shape.kKeys) + "/" +
                                              std::to_string(shape.kFewKeys);
            });
            return name;
        default:
            return family_name(kernels);
    }
}

void print_problem(const Attention& problem) {
    std::printf("%lld,%lld (%lld),%lld x %lld,%lld %s: ", static_cast<long long>(problem.batch),
                static_cast<long long>(problem.heads), static_cast<long long>(problem.kv_heads),
                static_cast<long long>(problem.q_len), static_cast<long long>(problem.k_len),
                static_cast<long long>(problem.head_dim), problem.causal ? "causal" : "full");
}

// Whether the choice takes at most 5 % longer than the best; prints a line if not.
bool is_fast(const Attention& problem, const Times& us, const std::string& choice) {
    double best = us.begin()->second;
    for (const auto& [name, time] : us) {
        best = std::min(best, time);
    }
    const auto found = us.find(choice);
    if (found != us.end() && found->second <= 1.05 * best) {
        return true;
    }
    print_problem(problem);
    std::printf("chosen %s (%.2f), best %.2f\n", choice.c_str(),
                found == us.end() ? 0.0 : found->second, best);
    return false;
}

bool check(const Chunk& chunk) {
    const Attention problem = problem_of(chunk);
    if (kernels_for(problem, true, kSms, false) == Kernels::packed) {
        std::puts("packed rows without scratch memory");
        return false;
    }
    return is_fast(problem, chunk.us, family_name(kernels_for(problem, true, kSms)));
}

// Head dim 32 on an H100: the main kernel's tiles.
struct Narrow {
    int64_t batch, heads, length;
    bool causal;
    Times us;
};
const std::vector<Narrow> kNarrow = {
    {4, 16, 1024, false, {{"192", 33.96}, {"128", 37.97}}},
    {1, 8, 16384, false, {{"192", 766.60}, {"128", 972.57}}},
    {1, 8, 16384, true, {{"192", 412.47}, {"128", 498.07}}},
    {2, 16, 4096, false, {{"192", 204.01}, {"128", 249.20}}},
    {2, 16, 4096, true, {{"192", 120.60}, {"128", 138.12}}},
    {8, 12, 512, false, {{"192", 21.82}, {"128", 17.71}}},
    {16, 16, 577, false, {{"192", 59.65}, {"128", 64.21}}},
    {1, 8, 2048, false, {{"192", 21.42}, {"128", 19.26}}},
    {1, 8, 2048, true, {{"192", 21.61}, {"128", 19.31}}},
    {2, 8, 1024, false, {{"192", 13.49}, {"128", 11.94}}},
    {2, 8, 1024, true, {{"192", 14.05}, {"128", 11.89}}},
    {32, 16, 256, false, {{"192", 28.00}, {"128", 25.27}}},
};

bool check(const Narrow& cell) {
    const Attention problem = problem_of(Chunk{cell.batch, cell.heads, cell.heads, cell.length,
                                               cell.length, 32, cell.causal, {}});
    const auto predicted = [&](int rows) { return sm90::predicted_main_time(problem, rows, kSms); };
    return is_fast(problem, cell.us, predicted(192) <= predicted(128) ? "192" : "128");
}

bool check(const Cell& cell) {
    const Attention problem = problem_of(cell);
    bool good = is_fast(problem, cell.us, chosen(problem));
    for (const int rows : {192, 128}) {
        const auto measured = cell.us.find(std::to_string(rows));
        if (measured == cell.us.end()) {
            continue;
        }
        const double predicted = sm90::predicted_main_time(problem, rows, kSms);
        const double ratio = predicted / measured->second;
        if (!(ratio > 0.93 && ratio < 1.07)) {
            print_problem(problem);
            std::printf("main %d predicted %.2f, measured %.2f\n", rows, predicted,
                        measured->second);
            good = false;
        }
    }
    return good;
}

}  // namespace

int main() {
    bool good = true;
    for (const Cell& cell : kCells) {
        good = check(cell) && good;
    }
    for (const Chunk& chunk : kChunks) {
        good = check(chunk) && good;
    }
    for (const Narrow& cell : kNarrow) {
        good = check(cell) && good;
    }
    if (good) {
        std::printf("choice checked\n");
    }
    return good ? 0 : 1;
}
