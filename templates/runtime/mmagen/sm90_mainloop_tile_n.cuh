// Mainloop for sm_90 in which each launch decides how many columns of the CTA tile are computed. Each number of columns has its
// own loop and accumulators, with a wgmma of that N. Stages of fewer columns are smaller, and there are more of them.
#pragma once

#include "sm90_mainloop_ss.cuh"

namespace mmagen {
inline namespace v0_1 {

/// StageMma: a Sm90StageMma of the whole tile, of which the first stage of B is used. Op: the wgmma of the columns that are
/// computed.
template <class Config, class Op, class StageMma>
struct Sm90NarrowStageMma {
  static constexpr int kColumns = cute::size<1>(typename cute::MMA_Traits<Op>::Shape_MNK{});
  // From one stage of B to the next, in the 16 bytes that descriptors count.
  static constexpr int kStep = Sm90Stages<Config>::elements_b(kColumns) * int(sizeof(typename Config::B::Element)) / 16;
  StageMma whole;

  /// Those of the tile's accumulators that belong to the computed columns.
  template <class TensorRC>
  CUTE_DEVICE static auto accumulators(TensorRC& tCrC) {  // ((2,2,MMA_N/8),MMA_M,1)
    using namespace cute;
    auto const shape = make_shape(Shape<_2, _2, Int<kColumns / 8>>{}, size<1>(tCrC), _1{});
    return make_tensor(tCrC.data(), make_layout(shape, stride(tCrC.layout())));
  }

  /// Issues the wgmmas of a stage as one batch. tCrC: as accumulators() returns it; first: Zero if the first of them overwrites
  /// it.
  template <class TensorRC>
  CUTE_DEVICE void operator()(TensorRC& tCrC, int stage, cute::GMMA::ScaleOut first = cute::GMMA::ScaleOut::One) {
    using namespace cute;
    MMA_Atom<Op> mma;
    auto const rA = whole.tCrA(_, _, _, stage);          // (MMA,MMA_M,MMA_K)
    auto const first_b = whole.tCrB(_, _, _, Int<0>{});  // (MMA,MMA_N,MMA_K)
    auto const rB = make_tensor(first_b.data() + stage * kStep, first_b.layout());
    mma.accumulate_ = first;
    warpgroup_fence_operand(tCrC);
    warpgroup_arrive();
    CUTE_UNROLL
    for (int k_block = 0; k_block < size<2>(rB); ++k_block) {
      gemm(mma, rA(_, _, k_block), rB(_, _, k_block), tCrC);  // (V,M) x (V,N) => (V,M,N)
      mma.accumulate_ = GMMA::ScaleOut::One;
    }
    warpgroup_commit_batch();
    warpgroup_fence_operand(tCrC);
  }
};

template <class Config>
struct Sm90MainloopTileN : Sm90MainloopSs<Config> {
  using Base = Sm90MainloopSs<Config>;
  using typename Base::Params;
  using typename Base::SharedStorage;
  static constexpr bool kTakesTile = true;

  /// As Sm90MainloopSs::stage(), of a launch that computes whole tiles.
  CUTE_DEVICE static auto stage(SharedStorage& storage, int thread) { return stage(storage, whole_tiles<Config>(), thread); }

  /// As Sm90MainloopSs::mma(), on the first params.tile_n columns of tCrC.
  template <class Tile, class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma(Params const& params, Tile const&, int, SharedStorage& storage, Sm90Pipeline<Config>& pipeline,
                              PipelineState<0>& pipe, int k_tiles, int thread,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              Release const& release, Issued const& issued) {
    auto const whole = stage(storage, params, thread);
    mma_from<0>(params.tile_n, whole, pipeline, pipe, k_tiles, tCrC, release, issued);
  }

 private:
  /// launch: Params or LaunchedStages.
  template <class Launch>
  CUTE_DEVICE static auto stage(SharedStorage& storage, Launch const& launch, int thread) {
    return make_stage_mma<Config, typename Base::OperandA>(storage.stage_a(0), storage.stage_b(launch, 0), thread);
  }

  /// By the first of Config::MmaOps from kOp on that computes so many columns. A recursion rather than a loop of lambdas: what
  /// is not inlined has its accumulators on the stack.
  template <int kOp, class StageMma, class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma_from(int tile_n, StageMma const& stage, Sm90Pipeline<Config>& pipeline, PipelineState<0>& pipe,
                                   int k_tiles, TensorRC& tCrC, Release const& release, Issued const& issued) {
    using Op = cute::tuple_element_t<kOp, typename Config::MmaOps>;
    constexpr int kOps = cute::tuple_size<typename Config::MmaOps>::value;
    if (kOp + 1 == kOps || tile_n == Sm90NarrowStageMma<Config, Op, StageMma>::kColumns) {
      using namespace cute;
      Sm90NarrowStageMma<Config, Op, StageMma> stage_mma{stage};
      Tensor sums = stage_mma.accumulators(tCrC);
      Tensor own = make_fragment_like(sums);
      mma_with_one_in_flight<Config>(stage_mma, pipeline, pipe, k_tiles, own, release, issued);
      clear(tCrC);  // columns that are not computed may be written to a workspace
      // Each loop has accumulators of its own, and the moves are volatile. Else all loops have theirs in the registers of tCrC,
      // as operands of wgmma that differ in size, which ptxas does not always manage: it then waits for each wgmma (C7511).
      Tensor from = recast<uint32_t>(own);
      Tensor to = recast<uint32_t>(sums);
      CUTE_UNROLL
      for (int i = 0; i < size(to); ++i) { asm volatile("mov.b32 %0, %1;" : "=r"(to(i)) : "r"(from(i))); }
    } else if constexpr (kOp + 1 < kOps) {
      mma_from<kOp + 1>(tile_n, stage, pipeline, pipe, k_tiles, tCrC, release, issued);
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
