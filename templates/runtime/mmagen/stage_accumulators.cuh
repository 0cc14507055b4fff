// Accumulators -> shared memory. With several atoms along K (sliced-K), their partial sums are added up on the way.
#pragma once

#include <cute/tensor.hpp>

namespace mmagen {
inline namespace v0_1 {

/// Writes each thread's accumulators to its elements of a shared tile. The kAtomsK slices of a TiledMMA hold partial
/// sums of the same elements: slice 0 stores, the others add theirs in order, so the sum does not depend on timing.
/// Ends with a barrier: afterwards any thread may read the tile.
template <int kAtomsK, class TensorR, class TensorS>
CUTE_DEVICE void stage_accumulators(TensorR const& rC,  // (MMA,MMA_M,MMA_N)
                                    TensorS&& sC,       // (MMA,MMA_M,MMA_N)
                                    int k_slice) {
  using namespace cute;
  constexpr int kVectorBits = cute::min(128, 2 * sizeof_bits_v<typename TensorR::value_type>);  // most atoms own pairs along N
  if (k_slice == 0) { copy(AutoVectorizingCopyWithAssumedAlignment<kVectorBits>{}, rC, sC); }
  __syncthreads();
  CUTE_UNROLL
  for (int slice = 1; slice < kAtomsK; ++slice) {
    if (k_slice == slice) {
      CUTE_UNROLL
      for (int i = 0; i < size(rC); ++i) { sC(i) = sC(i) + rC(i); }
    }
    __syncthreads();
  }
}

}  // namespace v0_1
}  // namespace mmagen
