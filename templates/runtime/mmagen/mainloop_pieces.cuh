// Mainloop for f32 operands, sm_80 and later: the f32 fragments of a k block are split in registers into bf16 pieces, and the
// products of pieces are summed.
//
// For each k block the products are summed from zero, the smallest first, and the sum is added to the accumulators, rounding to
// nearest: the tensor core rounds each sum toward zero in its last bit, and over all of K these roundings would add up.
#pragma once

#include "bf16_pieces.cuh"
#include "mainloop_multistage.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Pieces: of a Config, see config.cuh.
template <class Pieces>
struct PieceProducts : PlainProducts {
  template <class TensorR>
  CUTE_DEVICE static auto loaded(TensorR const& frag) {
    return cute::make_fragment_like<float>(frag);
  }

  template <class TiledMma, class TensorRA, class TensorRB, class TensorRC>
  CUTE_DEVICE static void multiply(TiledMma const& mma,
                                   TensorRA const& tCrA,  // (MMA,MMA_M)
                                   TensorRB const& tCrB,  // (MMA,MMA_N)
                                   TensorRC& tCrC) {      // (MMA,MMA_M,MMA_N)
    using namespace cute;
    auto const pieces_b = split(tCrB);              // (MMA,MMA_N,PIECE)
    auto sums = make_fragment_like(tCrC(_, 0, _));  // (MMA,MMA_N)
    CUTE_UNROLL
    for (int m = 0; m < size<1>(tCrA); ++m) {
      auto const pieces_a = split(tCrA(_, m));  // (MMA,PIECE)
      clear(sums);
      for_each(make_int_sequence<Pieces::kProducts>{}, [&](auto product) {
        constexpr int kA = Pieces::kPieceOfA[decltype(product)::value];
        constexpr int kB = Pieces::kPieceOfB[decltype(product)::value];
        CUTE_UNROLL
        for (int n = 0; n < size<1>(tCrB); ++n) { gemm(mma, pieces_a(_, kA), pieces_b(_, n, kB), sums(_, n)); }
      });
      CUTE_UNROLL
      for (int i = 0; i < size(sums); ++i) { tCrC(_, m, _)(i) += sums(i); }
    }
  }

 private:
  /// The pieces of a fragment (MMA,...): (MMA,...,PIECE). Two neighbours along K share a register.
  template <class TensorR>
  CUTE_DEVICE static auto split(TensorR const& frag) {
    using namespace cute;
    Tensor pieces = make_tensor<bfloat16_t>(append(frag.shape(), Int<Pieces::kCount>{}));
    Tensor words = recast<uint32_t>(pieces);
    constexpr int kPairs = decltype(size(frag))::value / 2;
    CUTE_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      uint32_t of_pair[Pieces::kCount];
      detail::split_pair(frag(2 * i), frag(2 * i + 1), of_pair);
      CUTE_UNROLL
      for (int piece = 0; piece < Pieces::kCount; ++piece) { words(i + kPairs * piece) = of_pair[piece]; }
    }
    return pieces;
  }
};

template <class Config>
struct MainloopPieces : MainloopMultistage<Config, PieceProducts<typename Config::Pieces>> {};

}  // namespace v0_1
}  // namespace mmagen
