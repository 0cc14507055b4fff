// Mainloop for 4-bit operands, sm_80 and later: MainloopMultistage on bytes, each of which holds two neighbours along K.
#pragma once

#include "mainloop_multistage.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Fragments of bytes that are multiplied as they are loaded.
struct PackedProducts : PlainProducts {
  /// If K is odd, the high half of the last byte of each row is not an element and may hold anything. Set to zero in A, it
  /// contributes 0 whatever B has there.
  template <class Config, class TensorSA>
  CUTE_DEVICE static void finish_last_tile(TensorSA&& sA,  // (BLK_M,BLK_K)
                                           int k, int k_left) {
    if (k % Config::A::kGroup == 0) { return; }
    CUTE_NO_UNROLL
    for (int row = int(threadIdx.x); row < Config::A::kTileMn; row += Config::kThreads) { sA(row, k_left - 1) &= 0x0f; }
    __syncthreads();  // fragments are loaded next
  }
};

template <class Config>
struct MainloopPacked : MainloopMultistage<Config, PackedProducts> {};

}  // namespace v0_1
}  // namespace mmagen
