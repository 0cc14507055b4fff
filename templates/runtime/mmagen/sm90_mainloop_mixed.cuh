// Mainloop for sm_90 with narrow weights as A and 16-bit activations as B. TMA loads both as they lie in memory; each consumer
// thread converts the weights of its fragments in registers, which wgmma reads from there (sm90_mixed_weights.cuh), and further
// warps of the producer's warpgroup put the activations into the order of these fragments (sm90_mixed_activations.cuh).
//
// A chunk lies in one group of columns that share a scale. The tensor core sums a chunk of exact integers (or 8-bit floats),
// and the sum times the scale of its row is added in f32, so that scales are never rounded.
//
// From a chunk's load to its sum a warpgroup takes several times as long as its instructions alone: the warpgroups of an SM
// hide each other's latency. Where a tile has few rows, several groups of warpgroups (kPartsOfK) take its k tiles in turn.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_mixed_activations.cuh"
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
  using Pipeline = Sm90MixedPipeline<Config>;
  using Activations = ActivationOrder<Config>;
  using Quarters = WeightQuarters<Config>;
  using Factors = GroupFactors<Config>;
  using Lines = AccumulatorLines<Config>;
  static constexpr bool kTakesEmptyK = true;
  static constexpr int kBatchesInFlight = 0;
  static constexpr bool kPreparesStages = true;
  static constexpr int kPartsOfK = Weights::kPartsOfK;
  static constexpr int kThreadsOfPart = cute::size(TiledMma{});
  static constexpr int kChunk = Weights::kChunk;
  static constexpr int kChunks = Config::kTileK / kChunk;      // of a stage
  static constexpr int kBlocks = kChunk / 16;                  // wgmmas along a chunk
  static constexpr int kAhead = 8;                             // k tiles whose scales are prefetched into L2
  static constexpr bool kThreadsLoad = Weights::kThreadsLoad;  // activations; else TMA does
  static_assert(!kThreadsLoad || Activations::kMostSteps <= 2, "a stage of activations fits the registers of a warp");
  static_assert(128 % kChunk == 0, "a step of the preparing warps is whole chunks");
  static_assert(Config::kStages > kPartsOfK, "a part keeps a stage until its next one is full");
  using Parts = PartsOfK<kPartsOfK, kThreadsOfPart, Config::kTileM * Config::kTileN / kThreadsOfPart>;

  struct Params {
    typename Load::Params load;
    Sm90GroupScales<Config> scales;
    ActivationMatrix<Config> activations;
    int row_blocks;  // of 8 rows of activations that a stage has
  };

  struct SharedStorage : Load::SharedStorage, Parts::SharedStorage {};

  /// CUDA_ERROR_INVALID_VALUE where TMA cannot address A or B. With a K of 0 nothing is loaded.
  static CUresult make_params(Params& params, GemmArguments<Config> const& args) {
    int const lines = detail::box_lines<B, Config::kClusterM>(args.n);
    params.row_blocks = Activations::row_blocks(lines);
    params.scales = Sm90GroupScales<Config>::of(args);
    params.activations = {args.b, args.ldb, args.batch_stride_b, int(args.n), int(args.k)};
    if (args.k == 0) { return CUDA_SUCCESS; }
    CUresult const result = Load::make_params(params.load, args, true);
    if constexpr (kThreadsLoad) { params.load.stage_bytes -= detail::stage_bytes<B, Config::kClusterM>(lines); }
    return result;
  }

  CUTE_DEVICE static void prefetch_descriptors(Params const& params) {
    if (params.load.stage_bytes != 0) { Load::prefetch_descriptors(params.load); }  // with a K of 0 there are no tensor maps
  }

  CUTE_DEVICE static void load(Params const& params, typename TileScheduler::Params const& scheduling, SharedStorage& storage,
                               Pipeline& pipeline) {
    load_all_stages<Config, Loads>(params.load, scheduling, storage, pipeline);
  }

  /// The whole run of the preparing warps: all k tiles of all work tiles of this CTA. They take stages in turns, so that one
  /// need not be done before the next is begun. Every warp waits for every stage, and arrives for it: it must not be two phases
  /// ahead, nor the stage be loaded again before the warp has gone past its wait.
  CUTE_DEVICE static void prepare(Params const& params, typename TileScheduler::Params const& scheduling,
                                  SharedStorage& storage, Pipeline& pipeline) {
    ClusterCoord<Config> const cluster;
    PipelineState<Config::kStages> pipe;
    TileScheduler scheduler(scheduling, cluster);
    int const lane = int(threadIdx.x) % 32;
    int turn = int(threadIdx.x) % 128 / 32 - 1;  // stages until this warp's next one
    wait_on_dependent_grids();
    for (; scheduler.is_valid(scheduling); scheduler.advance(scheduling)) {
      WorkTileInfo const work = scheduler.work_tile(scheduling);
      auto const tile = cta_tile<Config>(scheduler, scheduling, work, cluster);
      int const first = work.k_begin;
      typename Activations::Held held;  // of this warp's next stage
      if constexpr (kThreadsLoad) {
        held.begin(params.activations, tile, lane);
        if (turn < work.k_tiles) { held.load(first + turn, params.row_blocks, params.activations.k); }
      }
      for (int i = turn; i < kAhead && i < work.k_tiles; i += Pipeline::kPreparingWarps) {
        params.scales.prefetch(tile, first + i, lane, i == 0);
      }
      CUTE_NO_UNROLL
      for (int i = 0; i < work.k_tiles; ++i, ++pipe) {
        pipeline.full[pipe.stage].wait(pipe.phase);
        if (turn == 0) {
          auto* const stage = storage.b.begin() + pipe.stage * B::kTileMn * B::kTileK;
          if constexpr (kThreadsLoad) {
            held.store(stage, params.row_blocks, lane);
          } else {
            Activations::permute(stage, params.row_blocks, lane);
          }
          detail::fence_shared_for_async();
        }
        __syncwarp();
        if (lane == 0) { pipeline.prepared[pipe.stage].arrive(); }
        if (turn == 0) {
          if constexpr (kThreadsLoad) {
            int const next = i + Pipeline::kPreparingWarps;
            if (next < work.k_tiles) { held.load(first + next, params.row_blocks, params.activations.k); }
          }
          if (i + kAhead < work.k_tiles) { params.scales.prefetch(tile, first + i + kAhead, lane, false); }
          turn = Pipeline::kPreparingWarps;
        }
        --turn;
      }
    }
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
    PipelineState<Config::kStages> first = pipe;
    first.advance(part);
    pipe.advance(k_tiles);
    mma_of_part(params, tile, k_begin, storage, pipeline, first, part, k_tiles, thread_of_part, tCrC, release, issued);
    Parts::add_up(storage, part, thread_of_part, tCrC);
  }

 private:
  /// What TMA loads.
  struct Loads : Load {
    template <class Tile>
    CUTE_DEVICE static void load_stage(typename Load::Params const& params, typename Load::SharedStorage& storage,
                                       Sm90Pipeline<Config>& pipeline, int stage, int k_tile, Tile const& tile,
                                       ClusterCoord<Config> const& cluster) {
      Load::template load_stage<!kThreadsLoad>(params, storage, pipeline, stage, k_tile, tile, cluster);
    }
  };

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

  /// K tiles part, part + kPartsOfK and following.
  template <class Tile, class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma_of_part(Params const& params, Tile const& tile, int k_begin, SharedStorage& storage,
                                      Pipeline& pipeline, PipelineState<Config::kStages> pipe, int part, int k_tiles,
                                      int thread, TensorRC& tCrC, Release const& release, Issued const& issued) {
    using namespace cute;
    TiledMma mma;
    auto const thread_mma = mma.get_slice(thread);
    Tensor sB = stages_of<B>(storage.b.begin());                           // (BLK_N,BLK_K,PIPE)
    Tensor tCrB = thread_mma.make_fragment_B(thread_mma.partition_B(sB));  // (MMA,MMA_N,MMA_K,PIPE)
    Tensor sums = make_fragment_like(tCrC);                                // (MMA,MMA_M,MMA_N), of one chunk
    using ShapeA = Shape<Int<Config::kTileM>, Int<kChunk>>;
    auto tCrA = make_tensor<typename B::Element>(partition_shape_A(mma, ShapeA{}));  // (MMA,MMA_M,MMA_K)
    typename Quarters::Rows const rows(thread);
    uint8_t const* const smem_a = reinterpret_cast<uint8_t const*>(storage.a.begin());
    GroupFactorsLoad<Config> const load_factors(params.scales, tile, Lines(thread));
    Factors next;                             // of the chunk that is converted next
    uint32_t scales[Lines::kCountM][2] = {};  // of the chunk whose sums come next
    int stage_in_use = -1;                    // that wgmmas in flight read, if any
    clear(tCrC);
    clear(sums);
    if (part < k_tiles) { load_factors(next, params.scales.group_of((k_begin + part) * kChunks)); }

    // Waits for the sums of the chunk before and adds them.
    auto const finish = [&](bool releases) {
      warpgroup_wait<0>();
      warpgroup_fence_operand(sums);
      warpgroup_fence_operand(tCrA);
      if (releases && stage_in_use >= 0) { release(stage_in_use); }
      add_scaled<Config>(sums, scales, tCrC);
    };
    CUTE_NO_UNROLL
    for (int i = part; i < k_tiles; i += kPartsOfK) {
      int const stage = pipe.stage;
      pipeline.full[stage].wait(pipe.phase);
      for_each(make_int_sequence<kChunks>{}, [&](auto which) {
        constexpr int kWhich = decltype(which)::value;
        Quarters quarters;
        quarters.load(smem_a + stage * A::kTileMn * A::kTileK, rows, kWhich);
        finish(kWhich == 0);
        quarters.convert(tCrA, next.zero);
        CUTE_UNROLL
        for (int m = 0; m < Lines::kCountM; ++m) {
          scales[m][0] = next.scale[m][0];
          scales[m][1] = next.scale[m][1];
        }
        if constexpr (kWhich == 0) { pipeline.prepared[stage].wait(pipe.phase); }
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
        load_factors(next, params.scales.group_of((k_begin + i) * kChunks + kWhich + kStep));
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
