// Fill on sm_80 and later: cp.async moves whole vectors without a stop in registers.
#pragma once

#include <cute/tensor.hpp>

#include "cp_async.cuh"
#include "fill.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Global -> shared memory; elements outside the operand become zero. The caller commits and waits (cp_async_fence,
/// cp_async_wait), then synchronises: vectors too small for cp.async are stored at once, the others arrive later.
template <class Operand, class TensorG, class TensorC, class TensorS>
CUTE_DEVICE void fill_tile_async(TensorG const& gX,  // (CPY,CPY_MN,CPY_K)
                                 TensorC const& cX,  // (CPY,CPY_MN,CPY_K) -> (mn,k) within the tile
                                 TensorS&& sX,       // (CPY,CPY_MN,CPY_K)
                                 int mn_left, int k_left)
{
  using namespace cute;
  using Element = typename Operand::Element;
  constexpr int kVector = decltype(size<0>(gX))::value;
  constexpr int kBytes = kVector * int(sizeof(Element));

  if constexpr (kBytes == 16) {
    if (mn_left >= Operand::kTileMn && k_left >= Operand::kTileK) {
      copy(Copy_Atom<SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>, Element>{}, gX, sX);
      return;
    }
  }
  // Edges are rare and single elements slow: neither is worth the registers of a full unroll.
#pragma unroll(kBytes == 16 ? 1 : 4)
  for (int r = 0; r < size<1>(gX) * size<2>(gX); ++r) {
    int const i = r % size<1>(gX);
    int const j = r / size<1>(gX);
    auto const [mn, k] = cX(0, i, j);
    int const inside = elements_inside<Operand, kVector>(mn, k, mn_left, k_left);
    if constexpr (kBytes < 4) {
      sX(0, i, j) = inside > 0 ? gX(0, i, j) : static_cast<Element>(0);
    } else {
      cp_async_zero_fill<kBytes>(&sX(0, i, j), &gX(0, i, j), inside * int(sizeof(Element)));
    }
  }
}

}  // namespace v0_1
}  // namespace mmagen
