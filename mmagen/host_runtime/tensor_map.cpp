// cuTensorMapEncodeTiled: refuses what the driver refuses, and writes a description that mmagen.emulate reads
// (emulate/tensor_map.py) into the 128 bytes that the driver would fill in a way of its own.
// Source: CUDA Driver API, "Tensor Map Object Management".
#include <cuda.h>

#include <cstdarg>
#include <cstring>

#include "state.h"

namespace mmagen_host {
namespace {

constexpr cuuint32_t kMostModes = 5;
constexpr cuuint64_t kMostExtent = cuuint64_t(1) << 32;
constexpr cuuint64_t kMostStride = cuuint64_t(1) << 40;
constexpr cuuint32_t kMostBox = 256;

CUresult refuse_map(char const* format, ...) __attribute__((format(printf, 1, 2)));

CUresult refuse_map(char const* format, ...) {
  char reason[256];
  va_list values;
  va_start(values, format);
  std::vsnprintf(reason, sizeof reason, format, values);
  va_end(values);
  note_refusal("cuTensorMapEncodeTiled", CUDA_ERROR_INVALID_VALUE, reason);
  return CUDA_ERROR_INVALID_VALUE;
}

/// Bytes of an element; 0 for a type that mmagen.emulate does not copy.
unsigned bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ: return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    default: return 0;
  }
}

/// Bytes over which 16-byte chunks are swizzled; 16 where they are not, 0 for a mode that mmagen.emulate does not know.
unsigned bytes_of(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_NONE: return 16;
    case CU_TENSOR_MAP_SWIZZLE_32B: return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B: return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B: return 128;
    default: return 0;
  }
}

template <class Value>
unsigned char* put(unsigned char* at, Value value) {
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

/// The layout is that of emulate/tensor_map.py: "<8sBBBBIQ", extents, strides, box. Types count from 1 there.
void write_description(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, unsigned swizzle, void const* address,
                       cuuint64_t const* extents, cuuint64_t const* strides, cuuint32_t const* box) {
  auto* at = reinterpret_cast<unsigned char*>(map);
  std::memset(at, 0, sizeof *map);
  std::memcpy(at, "mmagenTM", 8);
  at = put(at + 8, uint8_t(rank));
  at = put(at, uint8_t(bytes_of(type)));
  at = put(at, uint8_t(swizzle));
  at = put(at, uint8_t(type + 1));
  at = put(at, uint32_t(0));
  at = put(at, uint64_t(reinterpret_cast<uintptr_t>(address)));
  for (cuuint32_t i = 0; i < rank; ++i) { at = put(at, uint64_t(extents[i])); }
  for (cuuint32_t i = 0; i + 1 < rank; ++i) { at = put(at, uint64_t(strides[i])); }
  for (cuuint32_t i = 0; i < rank; ++i) { at = put(at, uint16_t(box[i])); }
}

CUresult encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, cuuint64_t const* extents,
                cuuint64_t const* strides, cuuint32_t const* box, cuuint32_t const* steps, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  if (!has_context) { return CUDA_ERROR_INVALID_CONTEXT; }
  unsigned const element = bytes_of(type);
  unsigned const swizzled = bytes_of(swizzle);
  if (element == 0 || swizzled == 0 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) {
    return refuse_map("data type %d, swizzle %d, interleave %d or out-of-bounds fill %d is not emulated", int(type),
                      int(swizzle), int(interleave), int(fill));
  }
  if (map == nullptr || reinterpret_cast<uintptr_t>(map) % 64 != 0) {
    return refuse_map("the map's own address %p is not a multiple of 64", static_cast<void*>(map));
  }
  if (rank < 1 || rank > kMostModes) { return refuse_map("%u modes; 1 to 5 are possible", rank); }
  if (address == nullptr || reinterpret_cast<uintptr_t>(address) % 16 != 0) {
    return refuse_map("the tensor's address %p is null or not a multiple of 16", address);
  }
  for (cuuint32_t i = 0; i < rank; ++i) {
    if (extents[i] < 1 || extents[i] > kMostExtent) {
      return refuse_map("extent %llu of mode %u is not within 1 to 2^32", (unsigned long long)extents[i], i);
    }
    if (box[i] < 1 || box[i] > kMostBox) {
      return refuse_map("a box of %u elements in mode %u; 1 to 256 are possible", box[i], i);
    }
    // The manual allows steps of up to 8; mmagen.emulate copies every element of a box.
    if (steps[i] != 1) { return refuse_map("an element stride of %u in mode %u is not emulated", steps[i], i); }
  }
  for (cuuint32_t i = 0; i + 1 < rank; ++i) {
    if (strides[i] % 16 != 0 || strides[i] >= kMostStride) {
      return refuse_map("stride %llu of mode %u is not a multiple of 16 below 2^40", (unsigned long long)strides[i], i + 1);
    }
  }
  unsigned const line = box[0] * element;
  if (line % 16 != 0) { return refuse_map("lines of the box are %u bytes, not a multiple of 16", line); }
  if (swizzled > 16 && line > swizzled) { return refuse_map("lines of %u bytes do not fit a swizzle of %u", line, swizzled); }
  write_description(map, type, rank, swizzled, address, extents, strides, box);
  return CUDA_SUCCESS;
}

}  // namespace

void* tensor_map_encoder() { return reinterpret_cast<void*>(&encode); }

}  // namespace mmagen_host
