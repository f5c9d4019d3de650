// The part of DLPack's C exchange API (https://dmlc.github.io/dlpack, version 1) that reading a
// tensor of another library takes: torch (2.10 and later) offers it as the attribute
// `__dlpack_c_exchange_api__` of torch.Tensor, so that nothing here is compiled against torch.
//
// An ABI: order, types and numbers are DLPack's.
#pragma once

#include <cstdint>

namespace flashbench::dlpack {

constexpr const char* kCapsuleName = "dlpack_exchange_api";
constexpr uint32_t kMajorVersion = 1;

enum DeviceType : int32_t { kCpu = 1, kCuda = 2 };
enum TypeCode : uint8_t { kFloat = 2, kBfloat = 4 };

struct Device {
    int32_t type;
    int32_t index;
};

struct DataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

// Shape and strides are in elements and belong to the tensor.
struct Tensor {
    void* data;
    Device device;
    int32_t dimensions;
    DataType dtype;
    const int64_t* shape;
    const int64_t* strides;
    uint64_t byte_offset;
};

struct Version {
    uint32_t major;
    uint32_t minor;
};

struct ExchangeApi {
    Version version;
    ExchangeApi* previous;
    // Owning tensors, which are not used here.
    void* allocate;
    void* export_owning;
    void* import_owning;
    // Describes `object`, which stays the owner; not 0, and a Python exception, if it cannot.
    int (*describe)(void* object, Tensor* out);
    // The stream that the library queues work on.
    int (*current_stream)(int32_t device_type, int32_t device_index, void** stream);
};

}  // namespace flashbench::dlpack
