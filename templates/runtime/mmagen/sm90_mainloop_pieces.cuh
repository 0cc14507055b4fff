// Mainloop for sm_90 with operands that were split into bf16 pieces: a stage has all pieces of a k tile of A and of B. Each
// piece is loaded once and takes part in several products.
//
// A stage has the columns of the first piece, then those of the second, and so on. The products are computed in the order of
// Config::Pieces, the smallest first: the tensor core rounds each sum toward zero in its last bit, and while only small
// products are summed, that bit is small.
#pragma once

#include "sm90_mainloop_ss.cuh"
#include "sm90_stage_mma.cuh"
#include "sm90_tma_load.cuh"

namespace mmagen {
inline namespace v0_1 {

/// As Sm90StageMma, for pairs of pieces.
template <class Pieces, class Base>
struct Sm90PiecesStageMma : Base {
  CUTE_DEVICE Sm90PiecesStageMma(Base const& base) : Base(base) {}

  /// Issues the wgmmas of a stage as one batch. `first`: Zero if the first of them overwrites tCrC.
  template <class TensorRC>
  CUTE_DEVICE void operator()(TensorRC& tCrC, int stage, cute::GMMA::ScaleOut first = cute::GMMA::ScaleOut::One) {
    using namespace cute;
    this->mma.accumulate_ = first;
    warpgroup_fence_operand(tCrC);
    warpgroup_arrive();
    for_each_product([&](int a, int b) {
      gemm(this->mma, this->tCrA(_, _, a, stage), this->tCrB(_, _, b, stage), tCrC);  // (V,M) x (V,N) => (V,M,N)
      this->mma.accumulate_ = GMMA::ScaleOut::One;
    });
    warpgroup_commit_batch();
    warpgroup_fence_operand(tCrC);
  }

  /// Issues the wgmmas of atom (kM, kN) on a stage as one batch, whose sums begin at zero.
  template <int kM, int kN, class TensorR>
  CUTE_DEVICE void unit(TensorR& sums, int stage) {  // sums: (V)
    using namespace cute;
    this->mma.accumulate_ = GMMA::ScaleOut::Zero;
    warpgroup_fence_operand(sums);
    warpgroup_arrive();
    for_each_product([&](int a, int b) {
      gemm(this->mma, this->tCrA(_, kM, a, stage), this->tCrB(_, kN, b, stage), sums);  // (V) x (V) => (V)
      this->mma.accumulate_ = GMMA::ScaleOut::One;
    });
    warpgroup_commit_batch();
    warpgroup_fence_operand(sums);
  }

 private:
  /// Calls visit(k block of A, k block of B) for each k block of each product.
  template <class Visit>
  CUTE_DEVICE void for_each_product(Visit const& visit) const {
    constexpr int kBlocks = decltype(cute::size<2>(this->tCrB))::value / Pieces::kCount;  // of one piece
    cute::for_each(cute::make_int_sequence<Pieces::kProducts>{}, [&](auto product) {
      constexpr int kA = Pieces::kPieceOfA[decltype(product)::value] * kBlocks;
      constexpr int kB = Pieces::kPieceOfB[decltype(product)::value] * kBlocks;
      CUTE_UNROLL
      for (int block = 0; block < kBlocks; ++block) { visit(kA + block, kB + block); }
    });
  }
};

template <class Pieces, class Base>
inline constexpr bool kIssuesUnits<Sm90PiecesStageMma<Pieces, Base>> = true;

template <class Config>
struct Sm90MainloopPieces : Sm90MainloopSs<Config> {
  using typename Sm90MainloopSs<Config>::SharedStorage;

  /// wgmma on one stage, for `thread` of the TiledMMA.
  CUTE_DEVICE static auto stage(SharedStorage& storage, int thread) {
    auto const plain = make_stage_mma<Config, SmemOperandA<Config>>(storage, thread);
    return Sm90PiecesStageMma<typename Config::Pieces, std::remove_const_t<decltype(plain)>>(plain);
  }

  /// As Sm90MainloopSs::mma().
  template <class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma(SharedStorage& storage, Sm90Pipeline<Config>& pipeline, PipelineState<Config::kStages>& pipe,
                              int k_tiles, int thread,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              Release const& release, Issued const& issued) {
    auto stage_mma = stage(storage, thread);
    mma_with_one_in_flight<Config>(stage_mma, pipeline, pipe, k_tiles, tCrC, release, issued);
  }
};

}  // namespace v0_1
}  // namespace mmagen
