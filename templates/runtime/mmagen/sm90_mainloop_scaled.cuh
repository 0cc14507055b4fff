// Mainloop for 8-bit floats whose scales change along K. The tensor core sums one k tile at a time, within one block of the
// scales; each sum is multiplied by the scales of its row and column and added to accumulators in f32 registers.
//
// A second warp of the producer copies the scales of a k tile to shared memory (by cp.async, which allows any layout and
// alignment) and arrives at the stage's full barrier when they are there. Consumers release the scales with a separate barrier,
// at which every warp arrives: wgmma ends for all warps of a warpgroup at once, ordinary loads do not.
//
// Units, and what keeps the tensor core busy meanwhile: sm90_mainloop_promoted.cuh.
#pragma once

#include <cute/tensor.hpp>

#include "cp_async.cuh"
#include "sm90_mainloop_promoted.cuh"
#include "sm90_pipeline.cuh"
#include "sm90_scales.cuh"
#include "sm90_stage_mma.cuh"
#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// One operand's scales of a k tile, in shared memory: a slot for each granule of the CTA tile's lines.
template <class Layout, int kTile>
struct ScaleSlots {
  static constexpr bool kUsed = Layout::kAlongK > 0;
  static constexpr int kSlots = kUsed ? (kTile / Layout::kGranule + 3) / 4 * 4 : 0;  // vectors of them are loaded at once
  static constexpr bool kOfLines = kUsed && Layout::kGranule == 1;                   // one for each line
  static_assert(!kUsed || kTile % Layout::kGranule == 0, "granules divide the tile");

  /// Called by a whole warp. `slots`: kSlots of them.
  CUTE_DEVICE static void load(ScaleTensor<Layout> const& scales, float* slots, int first, int k, int batch, int lane) {
    constexpr int kStep = 32 * Layout::kGranule;  // lines from one slot of a lane to the next
    static_assert(kStep % Layout::kLines == 0, "the addresses of a lane's slots are evenly spaced");
    int const line = first + lane * Layout::kGranule;
    float const* from = scales.at(line, k, batch);
    CUTE_UNROLL
    for (int i = 0; i * 32 < kSlots; ++i) {
      int const slot = i * 32 + lane;
      bool const exists = line + i * kStep < scales.extent;
      if (kSlots % 32 == 0 || slot < kSlots) {
        cp_async_zero_fill<4>(slots + slot, exists ? from : scales.data, exists ? 4 : 0);
      }
      from += kStep / Layout::kLines * (Layout::kContiguousK ? scales.ld : 1);
    }
  }

  /// The scale of a line of the CTA tile; 1 without scales along K.
  CUTE_DEVICE static float get(float const* slots, int line) {
    if constexpr (kUsed) {
      return slots[line / Layout::kGranule];
    } else {
      return 1.0f;
    }
  }
};

}  // namespace detail

/// The pipeline with the scales of each stage.
template <class Config>
struct Sm90ScaledPipeline : Sm90Pipeline<Config> {
  using SlotsA = detail::ScaleSlots<typename Config::ScaleA, Config::kTileM>;
  using SlotsB = detail::ScaleSlots<typename Config::ScaleB, Config::kTileN>;
  static constexpr int kBeginB = SlotsA::kSlots;  // of B's slots in a stage
  static constexpr int kSlots = kBeginB + SlotsB::kSlots;

  alignas(16) float scales[Config::kStages][kSlots];
  Barrier scales_empty[Config::kStages];  // all consumers have read the scales of a stage

  /// As Sm90Pipeline::init(). A stage is full when the thread that calls TMA and the warp that copies scales have arrived.
  CUTE_DEVICE void init(int consumers, ClusterShape cluster) {
    Sm90Pipeline<Config>::init(consumers, cluster, 1 + 32);
    for (Barrier& empty : scales_empty) { empty.init(4 * consumers); }
  }

  /// As Sm90Pipeline::release_unread(). Lanes 0 to 3 arrive for the four warps.
  CUTE_DEVICE void release_unread(int stage, ClusterCoord<Config> const& cluster) {
    Sm90Pipeline<Config>::release_unread(stage, cluster);
    if (threadIdx.x % 32 < 4) { scales_empty[stage].arrive(); }
  }
};

/// Base: Sm90MainloopSs or Sm90MainloopRs, whose loads of A and B and operand A it uses.
template <class Config, class Base>
struct Sm90MainloopScaled : Base {
  using typename Base::OperandA;
  using typename Base::SharedStorage;
  using typename Base::TileScheduler;
  using Pipeline = Sm90ScaledPipeline<Config>;
  using Scales = Sm90Scales<Config>;
  using Lines = AccumulatorLines<Config>;
  using SlotsA = typename Pipeline::SlotsA;
  using SlotsB = typename Pipeline::SlotsB;
  static constexpr int kBeginB = Pipeline::kBeginB;
  static constexpr int kGranuleB = SlotsB::kUsed ? Config::ScaleB::kGranule : Config::kTileN;
  static constexpr bool kScalesK = true;
  static constexpr int kPartialSums = detail::kSumsOfUnit<Config>;

  struct Params : Base::Params {
    Scales scales;
  };

  static CUresult make_params(Params& params, GemmArguments<Config> const& args) {
    params.scales = Scales::of(args);
    return Base::make_params(params, args);
  }
  static Scales make_scales(GemmArguments<Config> const& args) { return Scales::of(args); }

  /// The whole run of the warp that copies scales: those of all k tiles of all work tiles of this CTA.
  CUTE_DEVICE static void load_scales(Params const& params, typename TileScheduler::Params const& scheduling,
                                      Pipeline& pipeline) {
    ClusterCoord<Config> const cluster;
    PipelineState<Config::kStages> pipe;
    int const lane = threadIdx.x % 32;
    wait_on_dependent_grids();
    TileScheduler scheduler(scheduling, cluster);
    for (; scheduler.is_valid(scheduling); scheduler.advance(scheduling)) {
      WorkTileInfo const work = scheduler.work_tile(scheduling);
      auto const tile = cta_tile<Config>(scheduler, scheduling, work, cluster);
      auto const& of_a = params.scales.a_of(tile);
      auto const& of_b = params.scales.b_of(tile);
      CUTE_NO_UNROLL
      for (int i = 0; i < work.k_tiles; ++i, ++pipe) {
        pipeline.scales_empty[pipe.stage].wait(pipe.phase ^ 1);  // in the first round every stage is free
        float* const slots = pipeline.scales[pipe.stage];
        int const k = (work.k_begin + i) * Config::kTileK;
        if constexpr (SlotsA::kUsed) { SlotsA::load(of_a, slots, tile.first_m(Config::kTileM), k, tile.batch, lane); }
        if constexpr (SlotsB::kUsed) { SlotsB::load(of_b, slots + kBeginB, tile.first_n(Config::kTileN), k, tile.batch, lane); }
        pipeline.full[pipe.stage].arrive_after_copies();
      }
    }
    // No copy may outlive its thread: consumers have read all of them.
    CUTE_NO_UNROLL
    for (int i = 0; i < Config::kStages; ++i, ++pipe) { pipeline.scales_empty[pipe.stage].wait(pipe.phase ^ 1); }
  }

  /// As Base::mma(), with the sums multiplied by their scales.
  template <class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma(SharedStorage& storage, Pipeline& pipeline, PipelineState<Config::kStages>& pipe, int k_tiles,
                              int thread,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              Release const& release, Issued const& issued) {
    auto stage_mma = make_stage_mma<Config, OperandA>(storage, thread);
    Lines const lines(thread);
    auto const scaled_sums = [&](int stage) {
      float const* const slots = pipeline.scales[stage];
      return [=, &lines](int m, int n) {
        Factors const factors(slots, lines, m, n);
        return [=, &lines](auto const& sums, auto&& tCrC_unit) { factors.add(slots, lines, n, sums, tCrC_unit); };
      };
    };
    auto const added = [&](int stage) {
      __syncwarp();
      if (threadIdx.x % 32 == 0) { pipeline.scales_empty[stage].arrive(); }
    };
    mma_promoted_stages<Config>(stage_mma, pipeline, pipe, k_tiles, tCrC, release, issued, scaled_sums, added);
  }

  /// Adds the product of one stage, scaled, to tCrC and waits for it. For kernels without the warp that copies scales: they are
  /// read from global memory.
  template <class StageMma, class TensorRC>
  CUTE_DEVICE static void mma_and_wait(StageMma& stage_mma, int stage, TensorRC& tCrC, Scales const& scales,
                                       TileCoord const& tile, int k_tile) {
    Lines const lines(stage_mma.thread);
    int const k = k_tile * Config::kTileK;
    auto const scaled_sum = [&](int m, int n) {
      int const row = tile.m * Config::kTileM + lines.row(m) + lines.row_of_lane;
      float const of_row[2] = {along_k(scales.a, row, k, tile.batch), along_k(scales.a, row + 8, k, tile.batch)};
      return [&, n, upper = of_row[0], lower = of_row[1]](auto const& sums, auto&& tCrC_unit) {
        int const first = tile.n * Config::kTileN;
        float of_column[2];
        CUTE_UNROLL
        for (int group = 0; group < Lines::kGroups; ++group) {
          int const column = lines.column(n, group);
          if constexpr (SlotsB::kOfLines) {
            of_column[0] = along_k(scales.b, first + column + lines.column_of_lane, k, tile.batch);
            of_column[1] = along_k(scales.b, first + column + lines.column_of_lane + 1, k, tile.batch);
          } else if (group == 0 || column % kGranuleB == 0) {
            of_column[0] = of_column[1] = along_k(scales.b, first + column, k, tile.batch);
          }
          CUTE_UNROLL
          for (int i = 0; i < 4; ++i) {
            add_scaled(tCrC_unit(group * 4 + i), sums(group * 4 + i), i < 2 ? upper : lower, of_column[i % 2]);
          }
        }
      };
    };
    mma_promoted(stage_mma, stage, tCrC, [] {}, [] {}, scaled_sum);
  }

 private:
  CUTE_DEVICE static void add_scaled(float& sum, float partial, float row, float column) {
    sum = __fmaf_rn(row * column, partial, sum);
  }

  template <class Layout>
  CUTE_DEVICE static float along_k(ScaleTensor<Layout> const& scales, int line, int k, int batch) {
    if constexpr (Layout::kAlongK > 0) {
      return scales.get(line, k, batch);
    } else {
      return 1.0f;
    }
  }

  /// A thread's scales of a unit, read while its wgmmas run. Those of single columns would take too many registers: they are
  /// read when they are used.
  struct Factors {
    float row[2];
    float column[Lines::kGroups];

    CUTE_DEVICE Factors(float const* slots, Lines const& lines, int m, int n) {
      int const of_row = lines.row(m) + (SlotsA::kOfLines ? lines.row_of_lane : 0);
      row[0] = SlotsA::get(slots, of_row);
      row[1] = SlotsA::kOfLines ? SlotsA::get(slots, of_row + 8) : row[0];
      if constexpr (!SlotsB::kOfLines) {
        CUTE_UNROLL
        for (int group = 0; group < Lines::kGroups; ++group) {
          column[group] = SlotsB::get(slots + kBeginB, lines.column(n, group));
        }
      }
    }

    template <class TensorP, class TensorC>
    CUTE_DEVICE void add(float const* slots, Lines const& lines, int n, TensorP const& partial, TensorC&& sums) const {
      CUTE_UNROLL
      for (int group = 0; group < Lines::kGroups; ++group) {
        float2 columns;
        if constexpr (SlotsB::kOfLines) {
          columns = *reinterpret_cast<float2 const*>(slots + kBeginB + lines.column(n, group) + lines.column_of_lane);
        } else {
          columns = {column[group], column[group]};
        }
        CUTE_UNROLL
        for (int i = 0; i < 4; ++i) {
          add_scaled(sums(group * 4 + i), partial(group * 4 + i), row[i / 2], i % 2 == 0 ? columns.x : columns.y);
        }
      }
    }
  };
};

}  // namespace v0_1
}  // namespace mmagen
