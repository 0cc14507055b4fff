// SPDX-License-Identifier: MIT-0
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

/// The mode of a matrix in tiles that counts them. MatrixExtent describes the first tile; each begins `stride` elements after
/// the one before.
struct TileMode {
  int64_t count, stride;
};

namespace detail {

/// strides: of all modes but the first, in elements. Those of the modes of tiles and batches do not matter if their extent
/// is 1.
template <class Element, int kModes>
CUresult encode_modes(CUtensorMap& map, void const* pointer, int64_t const (&extents)[kModes],
                      int64_t const (&strides)[kModes - 1], int box_along, int box_across, int swizzle_bytes) {
  auto const encode = tensor_map_encoder();
  if (encode == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  cuuint64_t of_modes[kModes], bytes[kModes - 1];
  cuuint32_t box[kModes], steps[kModes];
  for (int i = 0; i < kModes; ++i) {
    of_modes[i] = cuuint64_t(extents[i]);
    box[i] = i == 0 ? cuuint32_t(box_along) : i == 1 ? cuuint32_t(box_across) : 1;
    steps[i] = 1;
  }
  for (int i = 0; i < kModes - 1; ++i) {
    bool const any = i > 0 && extents[i + 1] == 1;  // for instance a batch stride of 0, which TMA does not take
    bytes[i] = any ? 16 : cuuint64_t(strides[i] * int64_t(sizeof(Element)));
  }
  // Promotion to 256 bytes costs a sixth of the rate of TMA where lines do not begin at multiples of 32 bytes, and gains
  // nothing where they do.
  return encode(&map, tensor_map_type<Element>(), kModes, const_cast<void*>(pointer), of_modes, bytes, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, tensor_map_swizzle(swizzle_bytes), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace detail

/// Encodes `map` for boxes of box_along x box_across elements, in shared memory as rows of swizzle_bytes with TMA's swizzle.
/// CUDA_ERROR_INVALID_VALUE where TMA cannot address the matrix: rows must begin at 16-byte boundaries.
template <class Element>
CUresult encode_tensor_map(CUtensorMap& map, void const* pointer, MatrixExtent const& matrix, int box_along, int box_across,
                           int swizzle_bytes) {
  return detail::encode_modes<Element, 3>(map, pointer, {matrix.along, matrix.across, matrix.batch},
                                          {matrix.ld, matrix.batch_stride}, box_along, box_across, swizzle_bytes);
}

/// The same for a matrix in tiles, with the modes along, across, tile, batch. A box that extends beyond its tile does not reach
/// the next one.
template <class Element>
CUresult encode_tensor_map(CUtensorMap& map, void const* pointer, MatrixExtent const& tile, TileMode const& tiles,
                           int box_along, int box_across, int swizzle_bytes) {
  return detail::encode_modes<Element, 4>(map, pointer, {tile.along, tile.across, tiles.count, tile.batch},
                                          {tile.ld, tiles.stride, tile.batch_stride}, box_along, box_across, swizzle_bytes);
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
