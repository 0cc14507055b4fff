// Host side of TMA: encodes tensor maps without linking the driver.
#pragma once

#include <atomic>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cute/numeric/numeric_types.hpp>

#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace detail {

template <class Element>
constexpr CUtensorMapDataType tensor_map_type() {
  using cute::is_same_v;
  if constexpr (is_same_v<Element, cute::half_t>) {
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  } else if constexpr (is_same_v<Element, cute::bfloat16_t>) {
    return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  } else if constexpr (is_same_v<Element, int32_t>) {
    return CU_TENSOR_MAP_DATA_TYPE_INT32;
  } else if constexpr (sizeof(Element) == 4) {  // tf32 too: TMA copies its bits unchanged
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  } else {
    static_assert(sizeof(Element) == 1, "TMA has no such element type");
    return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

constexpr CUtensorMapSwizzle tensor_map_swizzle(int bytes) {
  return bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                       : CU_TENSOR_MAP_SWIZZLE_NONE;
}

/// The driver's cuTensorMapEncodeTiled, or null if the driver does not have it. Queried once; a guarded static would need the
/// C++ runtime, which a C program does not link.
inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
  static std::atomic<void*> known{nullptr};
  void* entry = known.load(std::memory_order_acquire);
  if (entry == nullptr) {
    cudaDriverEntryPointQueryResult found{};
    cudaError_t const error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) { entry = nullptr; }
    known.store(entry, std::memory_order_release);
  }
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
}

}  // namespace detail

/// A batch of matrices for TMA, in elements. `along`: extent of the contiguous mode; `across`: of the other.
struct MatrixExtent {
  int64_t along, across, batch;
  int64_t ld, batch_stride;
};

/// Encodes `map` for boxes of box_along x box_across elements, in shared memory as rows of swizzle_bytes with TMA's swizzle.
/// CUDA_ERROR_INVALID_VALUE where TMA cannot address the matrix: rows must begin at 16-byte boundaries.
template <class Element>
CUresult encode_tensor_map(CUtensorMap& map, void const* pointer, MatrixExtent const& matrix, int box_along, int box_across,
                           int swizzle_bytes) {
  auto const encode = detail::tensor_map_encoder();
  if (encode == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  cuuint64_t const extents[3] = {cuuint64_t(matrix.along), cuuint64_t(matrix.across), cuuint64_t(matrix.batch)};
  // A matrix that all batches share, or a single one, has extent 1 in its last mode, with any valid stride.
  int64_t const batch_stride = matrix.batch == 1 ? 16 : matrix.batch_stride * int64_t(sizeof(Element));
  cuuint64_t const strides[2] = {cuuint64_t(matrix.ld * int64_t(sizeof(Element))), cuuint64_t(batch_stride)};
  cuuint32_t const box[3] = {cuuint32_t(box_along), cuuint32_t(box_across), 1};
  cuuint32_t const steps[3] = {1, 1, 1};
  // Promotion to 256 bytes costs a sixth of the rate of TMA where lines do not begin at multiples of 32 bytes, and gains
  // nothing where they do.
  return encode(&map, detail::tensor_map_type<Element>(), 3, const_cast<void*>(pointer), extents, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, detail::tensor_map_swizzle(swizzle_bytes), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/// Calls `encode`, which encodes tensor maps, and sets `result` to what it returns. The driver's functions need a current
/// context. A thread that has not called CUDA before has none: the device's is then made current, and encode is called again.
template <class Encode>
Status encode_in_context(CUresult& result, Encode const& encode) {
  result = encode();
  if (result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_NOT_INITIALIZED) { return Status::kSuccess; }
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) { error = cudaSetDevice(device); }
  if (error == cudaSuccess) { result = encode(); }
  return status_of(error);
}

}  // namespace v0_1
}  // namespace mmagen
