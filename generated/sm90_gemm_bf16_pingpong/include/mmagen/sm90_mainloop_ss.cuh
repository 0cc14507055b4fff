// SPDX-License-Identifier: MIT-0
// Mainloop for sm_90 with both operands of wgmma in shared memory: TMA loads, consumer warpgroups multiply.
//
// wgmma is asynchronous. The batch of one k tile stays in flight while the consumer waits for the next stage, so a stage is
// released one k tile after it was issued.
#pragma once

#include "sm90_stage_mma.cuh"
#include "sm90_tma_load.cuh"

namespace mmagen {
inline namespace v0_1 {

/// A as descriptors of shared memory.
template <class Config>
struct SmemOperandA {
  template <class TensorS, class ThreadMma>
  CUTE_DEVICE static auto fragments(TensorS const& sA, ThreadMma const& thread_mma) {
    return thread_mma.make_fragment_A(thread_mma.partition_A(sA));  // (MMA,MMA_M,MMA_K,PIPE)
  }
  template <class TensorS, class TensorR>
  CUTE_DEVICE static void load(TensorS const&, TensorR&, int, int) {}
  template <class TensorR>
  CUTE_DEVICE static auto stage(TensorR const& tCrA, int stage) {
    return tCrA(cute::_, cute::_, cute::_, stage);
  }
  template <class TensorR>
  CUTE_DEVICE static void materialize(TensorR& tCrA) {
    asm volatile("" : "+r"(tCrA.data().desc_.reg32_[0]));
  }
};

/// Multiplies `k_tiles` (at least 1) stages into tCrC, from `pipe` on, with the batch of one stage in flight while the next is
/// waited for. `stage_mma(tCrC, stage, first)` issues the batch of a stage; the other arguments are those of a mainloop's
/// mma().
template <class Config, class StageMma, class Pipe, class TensorRC, class Release, class Issued>
CUTE_DEVICE void mma_with_one_in_flight(StageMma& stage_mma, Sm90Pipeline<Config>& pipeline, Pipe& pipe, int k_tiles,
                                        TensorRC& tCrC, Release const& release, Issued const& issued) {
  using namespace cute;
  int before = pipe.stage;
  pipeline.full[pipe.stage].wait(pipe.phase);
  stage_mma(tCrC, pipe.stage, GMMA::ScaleOut::Zero);
  ++pipe;
  CUTE_NO_UNROLL
  for (int i = 1; i < k_tiles; ++i, ++pipe) {
    pipeline.full[pipe.stage].wait(pipe.phase);
    stage_mma(tCrC, pipe.stage, GMMA::ScaleOut::One);
    warpgroup_wait<1>();
    release(before);
    before = pipe.stage;
  }
  issued();
  warpgroup_wait<0>();
  warpgroup_fence_operand(tCrC);
  release(before);
}

template <class Config>
struct Sm90MainloopSs : Sm90TmaLoad<Config> {
  using OperandA = SmemOperandA<Config>;
  using typename Sm90TmaLoad<Config>::SharedStorage;
  static constexpr int kBatchesInFlight = 1;

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
    auto stage_mma = stage(storage, thread);
    mma_with_one_in_flight<Config>(stage_mma, pipeline, pipe, k_tiles, tCrC, release, issued);
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
