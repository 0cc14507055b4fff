// The consumer's main loop: warpgroups multiply the stages that TMA has filled, by wgmma.
//
// wgmma runs behind the instructions that issue it. One k tile's batch stays in flight while the next stage is waited
// for, so a stage is released one k tile after it was read.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_params.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Shared-memory tensors of all stages, (BLK_MN,BLK_K,PIPE), swizzled as wgmma's descriptors say.
template <class Operand>
CUTE_DEVICE auto stages_of(typename Operand::Element* smem) {
  return cute::make_tensor(cute::make_smem_ptr(smem), typename Operand::SmemLayout{});
}

/// Where A comes from: descriptors of shared memory, or registers that ldmatrix fills for each k tile.
template <class Config, bool kInRegisters = Config::A::kInRegisters>
struct OperandA {
  template <class TensorS, class ThreadMma>
  CUTE_DEVICE static auto fragments(TensorS const& sA, ThreadMma const& thread_mma) {
    return thread_mma.make_fragment_A(thread_mma.partition_A(sA));  // (MMA,MMA_M,MMA_K,PIPE)
  }
  template <class TensorS, class TensorR>
  CUTE_DEVICE static void load(TensorS const&, TensorR&, int, int) {}
  template <class TensorR>
  CUTE_DEVICE static auto of_stage(TensorR const& tCrA, int stage) {
    return tCrA(cute::_, cute::_, cute::_, stage);
  }
};

template <class Config>
struct OperandA<Config, true> {
  template <class TensorS, class ThreadMma>
  CUTE_DEVICE static auto fragments(TensorS const& sA, ThreadMma const& thread_mma) {
    return thread_mma.partition_fragment_A(sA(cute::_, cute::_, 0));  // (MMA,MMA_M,MMA_K)
  }
  template <class TensorS, class TensorR>
  CUTE_DEVICE static void load(TensorS const& sA, TensorR& tCrA, int stage, int thread) {
    auto const tiled_copy = cute::make_tiled_copy_A(typename Config::A::SmemCopy{}, typename Config::TiledMma{});
    auto const thread_copy = tiled_copy.get_slice(thread);
    cute::copy(tiled_copy, thread_copy.partition_S(sA)(cute::_, cute::_, cute::_, stage), thread_copy.retile_D(tCrA));
  }
  template <class TensorR>
  CUTE_DEVICE static TensorR const& of_stage(TensorR const& tCrA, int) {
    return tCrA;
  }
};

/// Issues one stage's multiplies as one batch. Where mma.accumulate_ is Zero, the first of them overwrites `sums`.
template <class Config, class TiledMma, class TensorS, class TensorA, class TensorB, class TensorRC>
CUTE_DEVICE void multiply_stage(TiledMma& mma, TensorS const& sA, TensorA& tCrA, TensorB const& tCrB, TensorRC& sums, int stage,
                                int thread) {
  using namespace cute;
  using A = OperandA<Config>;
  A::load(sA, tCrA, stage, thread);
  auto const rA = A::of_stage(tCrA, stage);  // (MMA,MMA_M,MMA_K)
  warpgroup_fence_operand(sums);
  warpgroup_arrive();
  CUTE_UNROLL
  for (int k_block = 0; k_block < size<2>(tCrB); ++k_block) {
    gemm(mma, rA(_, _, k_block), tCrB(_, _, k_block, stage), sums);  // (V,M) x (V,N) => (V,M,N)
    mma.accumulate_ = GMMA::ScaleOut::One;
  }
  warpgroup_commit_batch();
  warpgroup_fence_operand(sums);
}

/// Multiplies `k_tiles` stages into tCrC, from `pipe` on. `thread`: index within the TiledMMA.
/// `release(stage)` is called in order for every stage that this warpgroup has read; `issued()` once all multiplies have
/// been issued, while the last of them still run.
template <class Config, class TensorRC, class Release, class Issued>
CUTE_DEVICE void multiply(Sm90Storage<Config>& storage, PipelineState<Config::kStages>& pipe, int k_tiles, int thread,
                          TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                          Release const& release, Issued const& issued) {
  using namespace cute;
  typename Config::TiledMma mma;
  Tensor sA = stages_of<typename Config::A>(storage.a.begin());  // (BLK_M,BLK_K,PIPE)
  Tensor sB = stages_of<typename Config::B>(storage.b.begin());  // (BLK_N,BLK_K,PIPE)
  auto const thread_mma = mma.get_slice(thread);
  auto tCrA = OperandA<Config>::fragments(sA, thread_mma);               // (MMA,MMA_M,MMA_K[,PIPE])
  Tensor tCrB = thread_mma.make_fragment_B(thread_mma.partition_B(sB));  // (MMA,MMA_N,MMA_K,PIPE)

  auto issue = [&](auto& sums, int stage) { multiply_stage<Config>(mma, sA, tCrA, tCrB, sums, stage, thread); };

  if constexpr (Config::kSplitK > 1) {
    if (k_tiles == 0) {  // fewer k tiles than CTAs to share them
      clear(tCrC);
      issued();
      return;
    }
  }
  mma.accumulate_ = GMMA::ScaleOut::Zero;
  if constexpr (Config::kPromote) {
    // fp8 sums keep few bits inside the tensor core: each k tile's sum is added to the accumulators in f32.
    Tensor sums = make_fragment_like(tCrC);
    clear(tCrC);
    CUTE_NO_UNROLL
    for (int i = 0; i < k_tiles; ++i, ++pipe) {
      storage.full[pipe.stage].wait(pipe.phase);
      mma.accumulate_ = GMMA::ScaleOut::Zero;
      issue(sums, pipe.stage);
      if (i + 1 == k_tiles) { issued(); }
      warpgroup_wait<0>();
      warpgroup_fence_operand(sums);
      release(pipe.stage);
      CUTE_UNROLL
      for (int v = 0; v < size(tCrC); ++v) { tCrC(v) += sums(v); }
    }
  } else if constexpr (Config::A::kInRegisters) {
    // The next k tile's fragments take the registers of this one's: nothing stays in flight.
    CUTE_NO_UNROLL
    for (int i = 0; i < k_tiles; ++i, ++pipe) {
      storage.full[pipe.stage].wait(pipe.phase);
      issue(tCrC, pipe.stage);
      if (i + 1 == k_tiles) { issued(); }
      warpgroup_wait<0>();
      warpgroup_fence_operand(tCrC);
      release(pipe.stage);
    }
  } else {
    int before = pipe.stage;
    storage.full[pipe.stage].wait(pipe.phase);
    issue(tCrC, pipe.stage);
    ++pipe;
    CUTE_NO_UNROLL
    for (int i = 1; i < k_tiles; ++i, ++pipe) {
      storage.full[pipe.stage].wait(pipe.phase);
      issue(tCrC, pipe.stage);
      warpgroup_wait<1>();
      release(before);
      before = pipe.stage;
    }
    issued();
    warpgroup_wait<0>();
    warpgroup_fence_operand(tCrC);
    release(before);
  }
}

}  // namespace v0_1
}  // namespace mmagen
