// The part of DLPack's C exchange API (https://dmlc.github.io/dlpack, version 1) that we need to read
// another library's tensors and allocate memory from it. torch (2.10 and later) offers it as the
// attribute `__dlpack_c_exchange_api__` of torch.Tensor, so nothing here is compiled against torch.
//
// An ABI: order, types and numbers are DLPack's.
#pragma once

#include <cstdint>

namespace flashbench::dlpack {

constexpr const char* kCapsuleName = "dlpack_exchange_api";
constexpr uint32_t kMajorVersion = 1;

enum DeviceType : int32_t { kCpu = 1, kCuda = 2 };
enum TypeCode : uint8_t { kUnsigned = 1, kFloat = 2, kBfloat = 4 };

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

// A tensor and its owner.
struct OwnedTensor {
    Version version;
    void* owner;
    void (*release)(OwnedTensor* self);
    uint64_t flags;
    Tensor tensor;
};

struct ExchangeApi {
    Version version;
    ExchangeApi* previous;
    // Makes an uninitialised tensor of the shape, dtype and device of `like`; not 0, and a call of
    // `report`, if it cannot.
    int (*allocate)(const Tensor* like, OwnedTensor** out, void* context,
                    void (*report)(void* context, const char* kind, const char* message));
    // Functions for owning tensors, unused here.
    void* export_owning;
    void* import_owning;
    // Describes `object`, which stays the owner; not 0, and a Python exception, if it cannot.
    int (*describe)(void* object, Tensor* out);
    // The stream that the library queues work on.
    int (*current_stream)(int32_t device_type, int32_t device_index, void** stream);
};

}  // namespace flashbench::dlpack
