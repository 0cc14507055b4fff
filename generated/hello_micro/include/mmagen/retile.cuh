// SPDX-License-Identifier: MIT-0
// A fragment of A or B in the layout of the copy that fills it.
#pragma once

#include <cute/tensor.hpp>

namespace mmagen {
inline namespace v0_1 {

/// The fragment `frag` of a TiledMMA as (CPY,CPY_MN,CPY_K), congruent with `tXs`, the source that a copy made by
/// make_tiled_copy_A (_B) from the same TiledMMA partitions. CuTe's retile_D inverts the copy's layout instead, which is
/// silently wrong for permutations that are layouts, and fails if the number of atoms is not a power of two.
template <class TiledCopy, class TensorX, class TensorR>
CUTE_DEVICE auto retile(TiledCopy const&,
                        TensorX const& tXs,  // (CPY,CPY_MN,CPY_K,...)
                        TensorR& frag) {     // (MMA,MMA_MN,MMA_K)
  using namespace cute;
  constexpr int kMn = decltype(size<1>(frag))::value / decltype(size<1>(tXs))::value;  // atoms of one CPY
  constexpr int kK = decltype(size<2>(frag))::value / decltype(size<2>(tXs))::value;
  auto const split = logical_divide(frag.layout(), make_tile(Underscore{}, Int<kMn>{}, Int<kK>{}));
  auto const values = make_layout(get<0>(split), get<0>(get<1>(split)), get<0>(get<2>(split)));  // of one CPY
  return make_tensor(frag.data(), make_layout(logical_divide(values, Layout<typename TiledCopy::AtomNumVal>{}),
                                              get<1>(get<1>(split)), get<1>(get<2>(split))));
}

}  // namespace v0_1
}  // namespace mmagen
