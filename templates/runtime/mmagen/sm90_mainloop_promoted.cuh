// Mainloop for fp8 on sm_90 with promotion: the tensor core keeps few bits of an fp8 sum, so the sum of each k tile is
// added to accumulators in f32 registers.
//
// A unit is what one wgmma shape covers, 64 rows by the atom's columns. A warpgroup multiplies unit after unit of a k tile into
// one set of partial sums, and adds up each of them while the wgmmas of another warpgroup run. Hazard: with a second set, which
// one k tile fills while another is added up, ptxas inserts waits for all wgmmas into the loop (C7514, C7517; nvcc 13.0).
#pragma once

#include <cute/tensor.hpp>

#include "sm90_pipeline.cuh"
#include "sm90_stage_mma.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Adds the product of one stage to tCrC, unit after unit, or all at once if `stage_mma` does not issue units. `addend(m, n)`
/// is called while the wgmmas of unit (m, n) run, and what it returns with the sums and the accumulators of the unit when they
/// have ended. `issued()` is called once all wgmmas have been issued, `read()` once none of them reads the stage any longer.
template <class StageMma, class TensorRC, class Issued, class Read, class Addend>
CUTE_DEVICE void mma_promoted(StageMma& stage_mma, int stage, TensorRC& tCrC, Issued const& issued, Read const& read,
                              Addend const& addend) {
  using namespace cute;
  if constexpr (kIssuesUnits<StageMma>) {
    constexpr int kCountN = decltype(size<2>(tCrC))::value;
    constexpr int kUnits = decltype(size<1>(tCrC))::value * kCountN;
    Tensor sums = make_tensor<float>(Int<decltype(size<0>(tCrC))::value>{});
    for_each(make_int_sequence<kUnits>{}, [&](auto unit) {
      constexpr int kM = unit / kCountN;
      constexpr int kN = unit % kCountN;
      constexpr bool kLast = unit == kUnits - 1;
      stage_mma.template unit<kM, kN>(sums, stage);
      if constexpr (kLast) { issued(); }
      auto const add = addend(kM, kN);
      warpgroup_wait<0>();
      warpgroup_fence_operand(sums);
      if constexpr (kLast) { read(); }
      add(sums, tCrC(_, kM, kN));
    });
  } else {
    Tensor sums = make_fragment_like(tCrC);
    typename StageMma::Words words;  // of metadata, which wgmma reads while it runs
    stage_mma.load(words, stage);
    stage_mma.issue(sums, stage, words, GMMA::ScaleOut::Zero);
    issued();
    warpgroup_wait<0>();
    warpgroup_fence_operand(sums);
    stage_mma.keep(words);
    read();
    addend(0, 0)(sums, tCrC);
  }
}

/// Multiplies `k_tiles` (at least 1) stages into tCrC, from `pipe` on, with mma_promoted(). `addend_of(stage)` is the addend of
/// a stage; `added(stage)` is called after all of its units have been added; the other arguments are those of a mainloop's
/// mma(). Between the end of a unit's wgmmas and the first of the next unit the warpgroup does not use the tensor core, so
/// other work is done while wgmmas run, e.g. testing whether the next stage is full.
template <class Config, class Pipeline, class StageMma, class TensorRC, class Release, class Issued, class AddendOf,
          class Added>
CUTE_DEVICE void mma_promoted_stages(StageMma& stage_mma, Pipeline& pipeline, PipelineState<Config::kStages>& pipe, int k_tiles,
                                     TensorRC& tCrC, Release const& release, Issued const& issued, AddendOf const& addend_of,
                                     Added const& added) {
  using namespace cute;
  if constexpr (kIssuesUnits<StageMma>) { stage_mma.materialize_descriptors(); }
  clear(tCrC);
  bool is_full = false;
  CUTE_NO_UNROLL
  for (int i = 0; i < k_tiles; ++i) {
    int const stage = pipe.stage;
    if (!is_full) { pipeline.full[stage].wait(pipe.phase); }
    ++pipe;
    auto const stage_issued = [&] {
      if (i + 1 == k_tiles) { issued(); }
      is_full = i + 1 < k_tiles && pipeline.full[pipe.stage].is_complete(pipe.phase);
    };
    mma_promoted(stage_mma, stage, tCrC, stage_issued, [&] { release(stage); }, addend_of(stage));
    added(stage);
  }
}

namespace detail {

/// Sums of a thread in a unit.
template <class Config>
inline constexpr int kSumsOfUnit = decltype(cute::size<1>(typename Config::TiledMma::AtomShape_MNK{}))::value / 2;

/// The addend of sums that are added as they are.
struct PlainSum {
  CUTE_DEVICE auto operator()(int, int) const {
    return [](auto const& sums, auto&& tCrC) {
      CUTE_UNROLL
      for (int v = 0; v < cute::size(sums); ++v) { tCrC(v) += sums(v); }
    };
  }
};

}  // namespace detail

/// Base: the mainloop whose loads and wgmmas it uses.
template <class Config, class Base>
struct Sm90MainloopPromoted : Base {
  using typename Base::SharedStorage;
  static constexpr int kPartialSums = detail::kSumsOfUnit<Config>;

  /// As Base::mma(), with the sums of each stage in registers of their own.
  template <class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma(SharedStorage& storage, Sm90Pipeline<Config>& pipeline, PipelineState<Config::kStages>& pipe,
                              int k_tiles, int thread,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              Release const& release, Issued const& issued) {
    auto stage_mma = Base::stage(storage, thread);
    auto const plain_sum = [](int) { return detail::PlainSum{}; };
    mma_promoted_stages<Config>(stage_mma, pipeline, pipe, k_tiles, tCrC, release, issued, plain_sum, [](int) {});
  }

  /// Adds the product of one stage to tCrC and waits for it.
  template <class StageMma, class TensorRC>
  CUTE_DEVICE static void mma_and_wait(StageMma& stage_mma, int stage, TensorRC& tCrC) {
    mma_promoted(stage_mma, stage, tCrC, [] {}, [] {}, detail::PlainSum{});
  }
};

}  // namespace v0_1
}  // namespace mmagen
