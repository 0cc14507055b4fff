// Mainloop for sm_90 with A in registers: ldmatrix loads the fragments of A from each stage, B stays in shared memory.
#pragma once

#include "retile.cuh"
#include "sm90_stage_mma.cuh"
#include "sm90_tma_load.cuh"

namespace mmagen {
inline namespace v0_1 {

/// A in registers, loaded for each k tile.
template <class Config>
struct RegisterOperandA {
  template <class TensorS, class ThreadMma>
  CUTE_DEVICE static auto fragments(TensorS const& sA, ThreadMma const& thread_mma) {
    return thread_mma.partition_fragment_A(sA(cute::_, cute::_, 0));  // (MMA,MMA_M,MMA_K)
  }
  template <class TensorS, class TensorR>
  CUTE_DEVICE static void load(TensorS const& sA, TensorR& tCrA, int stage, int thread) {
    auto const tiled_copy = cute::make_tiled_copy_A(typename Config::A::SmemCopy{}, typename Config::TiledMma{});
    auto const tXsA = tiled_copy.get_slice(thread).partition_S(sA);  // (CPY,CPY_M,CPY_K,PIPE)
    cute::copy(tiled_copy, tXsA(cute::_, cute::_, cute::_, stage), retile(tiled_copy, tXsA, tCrA));
  }
  template <class TensorR>
  CUTE_DEVICE static TensorR const& stage(TensorR const& tCrA, int) {
    return tCrA;
  }
  template <class TensorR>
  CUTE_DEVICE static void materialize(TensorR&) {}
};

template <class Config>
struct Sm90MainloopRs : Sm90TmaLoad<Config> {
  using OperandA = RegisterOperandA<Config>;
  using typename Sm90TmaLoad<Config>::SharedStorage;
  static constexpr int kBatchesInFlight = 0;  // the next k tile's fragments take the registers of this one's

  /// wgmma on one stage, for `thread` of the TiledMMA.
  CUTE_DEVICE static auto stage(SharedStorage& storage, int thread) {
    return make_stage_mma<Config, OperandA>(storage, thread);
  }

  /// Multiplies `k_tiles` (at least 1) stages into tCrC, from `pipe` on. `thread`: index within the TiledMMA.
  /// `release(stage)` is called in order for every stage that this warpgroup has read; `issued()` once all wgmmas have been
  /// issued, while the last of them still run.
  template <class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma(SharedStorage& storage, Sm90Pipeline<Config>& pipeline, PipelineState<Config::kStages>& pipe,
                              int k_tiles, int thread,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              Release const& release, Issued const& issued) {
    using namespace cute;
    auto stage_mma = stage(storage, thread);
    auto first = GMMA::ScaleOut::Zero;
    CUTE_NO_UNROLL
    for (int i = 0; i < k_tiles; ++i, ++pipe) {
      pipeline.full[pipe.stage].wait(pipe.phase);
      stage_mma(tCrC, pipe.stage, first);
      first = GMMA::ScaleOut::One;
      if (i + 1 == k_tiles) { issued(); }
      warpgroup_wait<0>();
      warpgroup_fence_operand(tCrC);
      release(pipe.stage);
    }
  }

  /// Adds the product of one stage to tCrC and waits for it.
  template <class StageMma, class TensorRC>
  CUTE_DEVICE static void mma_and_wait(StageMma& stage_mma, int stage, TensorRC& tCrC) {
    stage_mma(tCrC, stage);
    cute::warpgroup_wait<0>();
    cute::warpgroup_fence_operand(tCrC);
  }
};

}  // namespace v0_1
}  // namespace mmagen
