// Copies of an operand's tile from global to shared memory by cp.async (sm_80 and later).
#pragma once

#include <cute/tensor.hpp>

#include "cp_async.cuh"
#include "gmem_copy.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Global -> shared memory; elements outside the operand become zero. The caller must commit, wait (cp_async_fence,
/// cp_async_wait) and synchronize. Elements too small for cp.async are stored by the thread.
template <class Operand, class TensorG, class TensorC, class TensorS>
CUTE_DEVICE void copy_tile_async(TensorG const& gX,  // (CPY,CPY_MN,CPY_K)
                                 TensorC const& cX,  // (CPY,CPY_MN,CPY_K) -> (mn,k) within the tile
                                 TensorS&& sX,       // (CPY,CPY_MN,CPY_K)
                                 int mn_left, int k_left) {
  using namespace cute;
  using Element = typename Operand::Element;
  constexpr int kVector = decltype(size<0>(gX))::value;
  constexpr int kBytes = kVector * int(sizeof(Element));
  constexpr int kRows = decltype(size<1>(gX))::value;

  // Edge tiles are rare, and copies of single elements are slow: neither is worth the registers of a full unroll.
#pragma unroll(kBytes == 16 ? 1 : 4)
  for (int r = 0; r < kRows * size<2>(gX); ++r) {
    int const i = r % kRows;
    int const j = r / kRows;
    auto const [mn, k] = cX(0, i, j);
    int const inside = elements_inside<Operand, kVector>(mn, k, mn_left, k_left);
    if constexpr (kBytes < 4) {
      sX(0, i, j) = inside > 0 ? gX(0, i, j) : static_cast<Element>(0);
    } else {
      cp_async_zero_fill<kBytes>(&sX(0, i, j), &gX(0, i, j), inside * int(sizeof(Element)));
    }
  }
}

/// Without predication, for a tile that lies inside the operand, in vectors of 16 bytes: part kPart of kParts of them.
template <int kPart, int kParts, class TensorG, class TensorS>
CUTE_DEVICE void copy_part_async(TensorG const& gX,  // (CPY,CPY_MN,CPY_K)
                                 TensorS&& sX,       // (CPY,CPY_MN,CPY_K)
                                 bool enabled) {
  static_assert(decltype(cute::size<0>(gX))::value * sizeof(typename TensorG::value_type) == 16, "whole vectors only");
  constexpr int kRows = decltype(cute::size<1>(gX))::value;
  constexpr int kVectors = kRows * decltype(cute::size<2>(gX))::value;
  CUTE_UNROLL
  for (int r = kVectors * kPart / kParts; r < kVectors * (kPart + 1) / kParts; ++r) {
    cp_async_16_if(&sX(0, r % kRows, r / kRows), &gX(0, r % kRows, r / kRows), enabled);
  }
}

}  // namespace v0_1
}  // namespace mmagen
