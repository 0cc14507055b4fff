// Mainloop for sm_90 with narrow weights as A and 16-bit activations as B. TMA loads both without reordering. Each consumer
// thread converts the weights of its fragments in registers, from which wgmma reads them (sm90_mixed_weights.cuh).
//
// A chunk is part of one group of columns that share a scale. The tensor core sums a chunk of exact integers (or 8-bit floats),
// and the sum times the scale of its row is added in f32, so that scales are never rounded.
//
// A chunk takes a warpgroup several times as long as its instructions alone: the warpgroups of an SM hide each other's latency.
// If a tile has few rows, several groups of warpgroups (kPartsOfK) take its k tiles in turn.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_mixed_scales.cuh"
#include "sm90_mixed_weights.cuh"
#include "sm90_parts_of_k.cuh"
#include "sm90_pipeline.cuh"
#include "sm90_stage_mma.cuh"
#include "sm90_tma_load.cuh"
#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct Sm90MainloopMixed : Sm90TmaLoad<Config> {
  using Load = Sm90TmaLoad<Config>;
  using typename Load::TileScheduler;
  using A = typename Config::A;
  using B = typename Config::B;
  using TiledMma = typename Config::TiledMma;
  using Weights = typename Config::Weights;
  using Pipeline = Sm90Pipeline<Config>;
  using Pairs = WeightPairs<Config>;
  using Factors = GroupFactors<Config>;
  using Lines = AccumulatorLines<Config>;
  static constexpr bool kTakesEmptyK = true;
  static constexpr int kBatchesInFlight = 0;
  static constexpr bool kTakesTile = true;
  static constexpr int kPartsOfK = Weights::kPartsOfK;
  static constexpr int kThreadsOfPart = cute::size(TiledMma{});
  static constexpr int kChunk = Weights::kChunk;
  static constexpr int kChunks = Config::kTileK / kChunk;  // of a stage
  static constexpr int kBlocks = kChunk / 16;              // wgmmas along a chunk
  static constexpr int kAhead = 8;                         // k tiles whose scales are prefetched into L2
  static_assert(!TileScheduler::Params::Coord::kRowsOfGroups,
                "all rows of A are loaded, and rows that a group does not have may not be");
  static_assert(Config::kStages % kPartsOfK == 0, "a part has stages of its own");
  static_assert(kPartsOfK == 1 || Config::kStages > kPartsOfK, "a part keeps a stage until its next one is full");
  using Parts = PartsOfK<kPartsOfK, kThreadsOfPart, Config::kTileM * Config::kTileN / kThreadsOfPart>;

  struct Params {
    typename Load::Params load;
    Sm90GroupScales<Config> scales;
  };

  struct SharedStorage : Load::SharedStorage, Parts::SharedStorage {};

  /// CUDA_ERROR_INVALID_VALUE where TMA cannot address A or B. With a K of 0 nothing is loaded.
  static CUresult make_params(Params& params, GemmArguments<Config> const& args) {
    params.scales = Sm90GroupScales<Config>::of(args);
    return args.k == 0 ? CUDA_SUCCESS : Load::make_params(params.load, args, true);
  }

  CUTE_DEVICE static void prefetch_descriptors(Params const& params) {
    if (params.load.exists) { Load::prefetch_descriptors(params.load); }
  }

  CUTE_DEVICE static void load(Params const& params, typename TileScheduler::Params const& scheduling, SharedStorage& storage,
                               Pipeline& pipeline) {
    load_all_stages<Config, Load>(params.load, scheduling, storage, pipeline);
  }

  /// wgmma alone on one stage, for a loop that measures its rate: the fragments are not converted.
  CUTE_DEVICE static auto stage(SharedStorage& storage, int thread) {
    return make_stage_mma<Config, ConstantFragments>(storage, thread % kThreadsOfPart);
  }

  /// Multiplies `k_tiles` (at least 1) stages into tCrC, from `pipe` on: k tiles k_begin and following of `tile`; afterwards
  /// part 0 has the sums. thread: among those of all parts. The others as of Sm90MainloopRs::mma().
  template <class Tile, class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma(Params const& params, Tile const& tile, int k_begin, SharedStorage& storage, Pipeline& pipeline,
                              PipelineState<Config::kStages>& pipe, int k_tiles, int thread,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              Release const& release, Issued const& issued) {
    // The compiler must know that all lanes have the same part: descriptors are then computed once for a warp.
    int const part = kPartsOfK == 1 ? 0 : __shfl_sync(0xffffffff, thread / kThreadsOfPart, 0);
    int const thread_of_part = thread - part * kThreadsOfPart;
    // A part always has the same stages, also in the next work tile: a warp that had not waited for the previous phase could
    // mistake it for the one that it waits for. So the part whose turn it is begins.
    int const first = kPartsOfK == 1 ? 0 : (part + kPartsOfK - pipe.stage % kPartsOfK) % kPartsOfK;
    PipelineState<Config::kStages> begin = pipe;
    begin.advance(first);
    pipe.advance(k_tiles);
    mma_of_part(params, tile, k_begin, storage, pipeline, begin, first, k_tiles, thread_of_part, tCrC, release, issued);
    Parts::add_up(storage, part, thread_of_part, tCrC);
  }

 private:
  /// Fragments of A that nobody loads, as operands of a Sm90StageMma.
  struct ConstantFragments {
    template <class TensorS, class ThreadMma>
    CUTE_DEVICE static auto fragments(TensorS const&, ThreadMma const&) {
      using namespace cute;
      using ShapeA = Shape<Int<Config::kTileM>, Int<Config::kTileK>>;
      auto tCrA = make_tensor<typename B::Element>(partition_shape_A(TiledMma{}, ShapeA{}));  // (MMA,MMA_M,MMA_K)
      fill(tCrA, typename B::Element(float(threadIdx.x % 8)));
      return tCrA;
    }
    template <class TensorS, class TensorR>
    CUTE_DEVICE static void load(TensorS const&, TensorR&, int, int) {}
    template <class TensorR>
    CUTE_DEVICE static TensorR const& stage(TensorR const& tCrA, int) {
      return tCrA;
    }
  };

  /// K tiles first, first + kPartsOfK and following.
  template <class Tile, class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma_of_part(Params const& params, Tile const& tile, int k_begin, SharedStorage& storage,
                                      Pipeline& pipeline, PipelineState<Config::kStages> pipe, int first, int k_tiles,
                                      int thread, TensorRC& tCrC, Release const& release, Issued const& issued) {
    using namespace cute;
    TiledMma mma;
    auto const thread_mma = mma.get_slice(thread);
    Tensor sB = stages_of<B>(storage.b.begin());                           // (BLK_N,BLK_K,PIPE)
    Tensor tCrB = thread_mma.make_fragment_B(thread_mma.partition_B(sB));  // (MMA,MMA_N,MMA_K,PIPE)
    Tensor sums = make_fragment_like(tCrC);                                // (MMA,MMA_M,MMA_N), of one chunk
    using ShapeA = Shape<Int<Config::kTileM>, Int<kChunk>>;
    auto tCrA = make_tensor<typename B::Element>(partition_shape_A(mma, ShapeA{}));  // (MMA,MMA_M,MMA_K)
    typename Pairs::Rows const rows(thread);
    uint8_t const* const smem_a = reinterpret_cast<uint8_t const*>(storage.a.begin());
    GroupFactorsLoad<Config> const load_factors(params.scales, tile, Lines(thread));
    Factors next;                             // of the chunk that is converted next
    uint32_t scales[Lines::kCountM][2] = {};  // of the chunk whose sums come next
    int stage_in_use = -1;                    // that wgmmas in flight read, if any
    clear(tCrC);
    clear(sums);
    if (first < k_tiles) { load_factors(next, (k_begin + first) * kChunks); }
    CUTE_NO_UNROLL
    for (int i = first + kPartsOfK; i < kAhead && i < k_tiles; i += kPartsOfK) { load_factors.prefetch(k_begin + i); }

    // Waits for the sums of the chunk before and adds them.
    auto const finish = [&](bool releases) {
      warpgroup_wait<0>();
      warpgroup_fence_operand(sums);
      warpgroup_fence_operand(tCrA);
      if (releases && stage_in_use >= 0) { release(stage_in_use); }
      add_scaled<Config>(sums, scales, tCrC);
    };
    CUTE_NO_UNROLL
    for (int i = first; i < k_tiles; i += kPartsOfK) {
      int const stage = pipe.stage;
      pipeline.full[stage].wait(pipe.phase);
      for_each(make_int_sequence<kChunks>{}, [&](auto which) {
        constexpr int kWhich = decltype(which)::value;
        Pairs pairs;
        pairs.load(smem_a + stage * A::kTileMn * A::kTileK, rows, kWhich);
        finish(kWhich == 0);
        pairs.convert(tCrA, rows, next.zero);
        CUTE_UNROLL
        for (int m = 0; m < Lines::kCountM; ++m) {
          scales[m][0] = next.scale[m][0];
          scales[m][1] = next.scale[m][1];
        }
        mma.accumulate_ = GMMA::ScaleOut::Zero;
        warpgroup_fence_operand(sums);
        warpgroup_fence_operand(tCrA);
        warpgroup_arrive();
        CUTE_UNROLL
        for (int block = 0; block < kBlocks; ++block) {
          gemm(mma, tCrA(_, _, block), tCrB(_, _, kWhich * kBlocks + block, stage), sums);  // (V,M) x (V,N) => (V,M,N)
          mma.accumulate_ = GMMA::ScaleOut::One;
        }
        warpgroup_commit_batch();
        warpgroup_fence_operand(sums);
        // The chunk after this one, of this part. Behind the last one nothing is used.
        constexpr int kStep = kWhich + 1 < kChunks ? 1 : 1 + (kPartsOfK - 1) * kChunks;
        int const chunk = (k_begin + i) * kChunks + kWhich;
        load_factors(next, chunk + kStep);
        if constexpr (kWhich == 0) { load_factors.prefetch(k_begin + i + kAhead); }
      });
      stage_in_use = stage;
      pipe.advance(kPartsOfK);
    }
    issued();
    finish(true);
  }
};

}  // namespace v0_1
}  // namespace mmagen
