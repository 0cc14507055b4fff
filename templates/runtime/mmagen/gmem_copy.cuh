// Predicated copies of an operand's tile from global memory.
//
// A thread's part of a tile is (CPY,CPY_MN,CPY_K): CPY_MN x CPY_K vectors of CPY contiguous elements. "Wide" vectors have
// 16 bytes and require 16-byte aligned rows; "narrow" ones are single elements and require no alignment.
#pragma once

#include <cute/tensor.hpp>

namespace mmagen {
inline namespace v0_1 {

/// How many of the kVector elements that start at (mn, k) lie inside the operand; `mn_left` and `k_left` count the
/// elements from the tile's origin to the operand's end.
template <class Operand, int kVector>
CUTE_DEVICE int elements_inside(int mn, int k, int mn_left, int k_left) {
  int const along = Operand::kContiguousK ? k_left - k : mn_left - mn;
  bool const across = Operand::kContiguousK ? mn < mn_left : k < k_left;
  return across ? cute::max(0, cute::min(along, kVector)) : 0;
}

/// Global memory -> registers; elements outside the operand become zero.
template <class Operand, class TensorG, class TensorC, class TensorR>
CUTE_DEVICE void copy_tile(TensorG const& gX,  // (CPY,CPY_MN,CPY_K)
                           TensorC const& cX,  // (CPY,CPY_MN,CPY_K) -> (mn,k) within the tile
                           TensorR&& rX,       // (CPY,CPY_MN,CPY_K)
                           int mn_left, int k_left) {
  using namespace cute;
  using Element = typename Operand::Element;
  constexpr int kVector = decltype(size<0>(gX))::value;

  if (mn_left >= Operand::kTileMn && k_left >= Operand::kTileK) {
    copy(AutoVectorizingCopyWithAssumedAlignment<kVector * sizeof_bits_v<Element>>{}, gX, rX);
    return;
  }
  CUTE_UNROLL
  for (int i = 0; i < size<1>(gX); ++i) {
    CUTE_UNROLL
    for (int j = 0; j < size<2>(gX); ++j) {
      auto const [mn, k] = cX(0, i, j);
      int const inside = elements_inside<Operand, kVector>(mn, k, mn_left, k_left);
      CUTE_UNROLL
      for (int v = 0; v < kVector; ++v) { rX(v, i, j) = v < inside ? gX(v, i, j) : static_cast<Element>(0); }
    }
  }
}

}  // namespace v0_1
}  // namespace mmagen
