// SPDX-License-Identifier: MIT-0
// wgmma on one stage of shared memory, which all sm_90 mainloops have in common.
#pragma once

#include <cute/tensor.hpp>

namespace mmagen {
inline namespace v0_1 {

/// Shared-memory tensor of all stages, (BLK_MN,BLK_K,PIPE), swizzled as wgmma's descriptors say.
template <class Operand>
CUTE_DEVICE auto stages_of(typename Operand::Element* smem) {
  return cute::make_tensor(cute::make_smem_ptr(smem), typename Operand::SmemLayout{});
}

/// One thread's part of all stages. OperandA says whether wgmma reads A from shared memory or from registers.
template <class OperandA, class TiledMma, class TensorS, class TensorA, class TensorB>
struct Sm90StageMma {
  TiledMma mma;
  TensorS sA;    // (BLK_M,BLK_K,PIPE)
  TensorA tCrA;  // (MMA,MMA_M,MMA_K[,PIPE])
  TensorB tCrB;  // (MMA,MMA_N,MMA_K,PIPE)
  int thread;

  /// Issues the wgmmas of a stage as one batch. `first`: Zero if the first of them overwrites tCrC.
  template <class TensorRC>
  CUTE_DEVICE void operator()(TensorRC& tCrC, int stage, cute::GMMA::ScaleOut first = cute::GMMA::ScaleOut::One) {
    using namespace cute;
    OperandA::load(sA, tCrA, stage, thread);
    auto const rA = OperandA::stage(tCrA, stage);  // (MMA,MMA_M,MMA_K)
    mma.accumulate_ = first;
    warpgroup_fence_operand(tCrC);
    warpgroup_arrive();
    CUTE_UNROLL
    for (int k_block = 0; k_block < size<2>(tCrB); ++k_block) {
      gemm(mma, rA(_, _, k_block), tCrB(_, _, k_block, stage), tCrC);  // (V,M) x (V,N) => (V,M,N)
      mma.accumulate_ = GMMA::ScaleOut::One;
    }
    warpgroup_commit_batch();
    warpgroup_fence_operand(tCrC);
  }

  /// Keeps the descriptors in registers. The compiler would derive them from addresses before each batch, while no wgmma runs.
  CUTE_DEVICE void materialize_descriptors() {
    OperandA::materialize(tCrA);
    asm volatile("" : "+r"(tCrB.data().desc_.reg32_[0]));
  }

  /// Issues the wgmmas of atom (kM, kN) on a stage as one batch, whose sums begin at zero. Atom (0, 0) comes first: an A in
  /// registers is loaded for it, and wgmmas on other stages must have ended.
  template <int kM, int kN, class TensorR>
  CUTE_DEVICE void unit(TensorR& sums, int stage) {  // sums: (V)
    using namespace cute;
    if constexpr (kM == 0 && kN == 0) { OperandA::load(sA, tCrA, stage, thread); }
    auto const rA = OperandA::stage(tCrA, stage);  // (MMA,MMA_M,MMA_K)
    mma.accumulate_ = GMMA::ScaleOut::Zero;
    warpgroup_fence_operand(sums);
    warpgroup_arrive();
    CUTE_UNROLL
    for (int k_block = 0; k_block < size<2>(tCrB); ++k_block) {
      gemm(mma, rA(_, kM, k_block), tCrB(_, kN, k_block, stage), sums);  // (V) x (V) => (V)
      mma.accumulate_ = GMMA::ScaleOut::One;
    }
    warpgroup_commit_batch();
    warpgroup_fence_operand(sums);
  }
};

/// Does it have unit()?
template <class StageMma>
inline constexpr bool kIssuesUnits = false;
template <class... Types>
inline constexpr bool kIssuesUnits<Sm90StageMma<Types...>> = true;

/// a, b: the first stages. thread: index within the TiledMMA.
template <class Config, class OperandA>
CUTE_DEVICE auto make_stage_mma(typename Config::A::Element* a, typename Config::B::Element* b, int thread) {
  using namespace cute;
  typename Config::TiledMma mma;
  auto const thread_mma = mma.get_slice(thread);
  Tensor sA = stages_of<typename Config::A>(a);                          // (BLK_M,BLK_K,PIPE)
  Tensor sB = stages_of<typename Config::B>(b);                          // (BLK_N,BLK_K,PIPE)
  auto tCrA = OperandA::fragments(sA, thread_mma);                       // (MMA,MMA_M,MMA_K[,PIPE])
  Tensor tCrB = thread_mma.make_fragment_B(thread_mma.partition_B(sB));  // (MMA,MMA_N,MMA_K,PIPE)
  return Sm90StageMma<OperandA, decltype(mma), decltype(sA), decltype(tCrA), decltype(tCrB)>{mma, sA, tCrA, tCrB, thread};
}

/// The same for stages that are arrays of `storage`.
template <class Config, class OperandA, class Storage>
CUTE_DEVICE auto make_stage_mma(Storage& storage, int thread) {
  return make_stage_mma<Config, OperandA>(storage.a.begin(), storage.b.begin(), thread);
}

}  // namespace v0_1
}  // namespace mmagen
