// Mainloop for fp8 on sm_90 with promotion: the tensor core keeps few bits of an fp8 sum, so the sum of each k tile is
// added to accumulators in f32 registers.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_pipeline.cuh"
#include "sm90_stage_mma.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Base: the mainloop whose loads and wgmmas it uses.
template <class Config, class Base>
struct Sm90MainloopPromoted : Base {
  using typename Base::SharedStorage;

  /// As Base::mma(), with each stage's product in registers of its own.
  template <class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma(SharedStorage& storage, Sm90Pipeline<Config>& pipeline, PipelineState<Config::kStages>& pipe,
                              int k_tiles, int thread,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              Release const& release, Issued const& issued) {
    using namespace cute;
    auto stage_mma = Base::stage(storage, thread);
    Tensor partial = make_fragment_like(tCrC);
    clear(tCrC);
    CUTE_NO_UNROLL
    for (int i = 0; i < k_tiles; ++i, ++pipe) {
      pipeline.full[pipe.stage].wait(pipe.phase);
      stage_mma(partial, pipe.stage, GMMA::ScaleOut::Zero);
      if (i + 1 == k_tiles) { issued(); }
      warpgroup_wait<0>();
      warpgroup_fence_operand(partial);
      release(pipe.stage);
      CUTE_UNROLL
      for (int v = 0; v < size(tCrC); ++v) { tCrC(v) += partial(v); }
    }
  }

  /// Adds the product of one stage to tCrC and waits for it.
  template <class StageMma, class TensorRC>
  CUTE_DEVICE static void mma_and_wait(StageMma& stage_mma, int stage, TensorRC& tCrC) {
    using namespace cute;
    Tensor partial = make_fragment_like(tCrC);
    clear(partial);
    stage_mma(partial, stage);
    warpgroup_wait<0>();
    warpgroup_fence_operand(partial);
    CUTE_UNROLL
    for (int v = 0; v < size(tCrC); ++v) { tCrC(v) += partial(v); }
  }
};

}  // namespace v0_1
}  // namespace mmagen
