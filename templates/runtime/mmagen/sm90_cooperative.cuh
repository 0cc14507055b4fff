// Cooperative kernel: one producer thread loads, all consumer warpgroups compute one CTA tile together. If the mainloop has
// several parts of K, as many groups of warpgroups take the k tiles in turn, and the first group stores.
#pragma once

#include "sm90_kernel.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct Sm90Cooperative {
  using Mainloop = typename Config::Mainloop;
  using TileScheduler = typename Config::TileScheduler;
  using Epilogue = typename Config::Epilogue;
  static constexpr int kParts = Mainloop::kPartsOfK;
  static constexpr int kThreadsOfPart = cute::size(typename Config::TiledMma{});
  static_assert(kThreadsOfPart * kParts == 128 * Config::kConsumers, "the consumers share a tile");
  static_assert(Config::kThreads == 128 * (Config::kConsumers + 1), "one more warpgroup loads");

  CUTE_DEVICE static void run(Sm90Params<Config> const& params, Sm90SharedStorage<Config>& storage) {
    using namespace cute;
    prologue<Config>(params, storage, Config::kConsumers / kParts);
    int const warp = warp_index();

    if (warp >= 4 * Config::kConsumers) {
      warpgroup_reg_dealloc<Config::kProducerRegisters>();
      if (warp == 4 * Config::kConsumers && (TileScheduler::Params::kWholeWarp || elect_one())) {
        Mainloop::load(params.mainloop, params.scheduler, storage.mainloop, storage.pipeline);
      }
      if constexpr (Mainloop::kScalesK) {
        if (warp == 4 * Config::kConsumers + 1) { Mainloop::load_scales(params.mainloop, params.scheduler, storage.pipeline); }
      }
      __syncwarp();
      TileScheduler::fixup_producer();
    } else {
      warpgroup_reg_alloc<Config::kConsumerRegisters>();
      auto const cluster = cluster_coord<Config>(params.mainloop);
      bool const stores = kParts == 1 || warp < kThreadsOfPart / 32;
      Tensor tCrC = partition_fragment_C(typename Config::TiledMma{},
                                         Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
      auto pipe = first_stage<Config>(params.mainloop);
      if (stores) { Epilogue::init(params.epilogue, storage.source, warp, threadIdx.x % 32); }
      wait_on_dependent_grids();
      auto const release = [&](int stage) { storage.pipeline.release(stage, cluster); };
      typename Epilogue::Slices slices;
      TileScheduler scheduler(params.scheduler, cluster);
      for (; scheduler.is_valid(params.scheduler); scheduler.advance(params.scheduler)) {
        WorkTileInfo const work = scheduler.work_tile(params.scheduler);
        typename TileScheduler::Params::Coord tile;
        auto const issued = [&] {
          tile = cta_tile<Config>(scheduler, params.scheduler, work, cluster);
          materialize(tile);
          if constexpr (Mainloop::kScalesTile) {
            if (!TileScheduler::kHasEmptyWork || work.k_tiles > 0) {
              Mainloop::prefetch_tile_scales(params.mainloop.tile_scales, tile, threadIdx.x);
            }
          }
          if constexpr (!TileScheduler::kSharesTiles) {  // else another CTA may store the tile
            if (stores) {
              Epilogue::begin(params.epilogue, storage.epilogue, storage.source, tile, 0, threadIdx.x, warp, slices);
            }
          }
        };
        if ((TileScheduler::kHasEmptyWork || Mainloop::kTakesEmptyK) && work.k_tiles == 0) {
          clear(tCrC);
          issued();
        } else {
          if (skip_without_rows(scheduler, storage.pipeline, pipe, work.k_tiles, cluster, warp)) {
            clear(tCrC);
            issued();
          } else if constexpr (Mainloop::kTakesTile) {
            Mainloop::mma(params.mainloop, cta_tile<Config>(scheduler, params.scheduler, work, cluster), work.k_begin,
                          storage.mainloop, storage.pipeline, pipe, work.k_tiles, threadIdx.x, tCrC, release, issued);
          } else {
            Mainloop::mma(storage.mainloop, storage.pipeline, pipe, work.k_tiles, threadIdx.x, tCrC, release, issued);
          }
          if constexpr (Mainloop::kScalesTile) { Mainloop::scale_tile(params.mainloop.tile_scales, tile, threadIdx.x, tCrC); }
        }
        if (stores && scheduler.fixup(params.scheduler, work, storage.mainloop, tCrC)) {
          int thread = threadIdx.x;
          // Keeps the compiler from computing what depends on `thread` before the first tile, and spilling it.
          if constexpr (TileScheduler::kSharesTiles) { asm volatile("" : "+r"(thread)); }
          Epilogue::store(params.epilogue, storage.epilogue, storage.source, tCrC, tile, cluster.split, thread, warp, slices);
        }
      }
      if (!stores) { TileScheduler::fixup_producer(); }
      Epilogue::wait_for_stores();
    }
  }

 private:
  static constexpr int kSkipping = 3;  // warpgroup i has named barrier kSkipping + i; stream-K has 1, parts of K have 2
  static_assert(kSkipping + Config::kConsumers <= Epilogue::kNamedBarrier, "from there on they belong to the epilogue");

  /// Skips the work tile if this warpgroup has no row of the tile's group: waits for its stages and releases them. Returns
  /// whether it has done so. A group of more than one row of cluster tiles is never skipped: its clusters read the same columns
  /// of B, and L2 serves all of them only while they keep the same pace.
  template <class Pipe>
  CUTE_DEVICE static bool skip_without_rows([[maybe_unused]] TileScheduler const& scheduler,
                                            [[maybe_unused]] typename Mainloop::Pipeline& pipeline, [[maybe_unused]] Pipe& pipe,
                                            [[maybe_unused]] int k_tiles, [[maybe_unused]] ClusterCoord<Config> const& cluster,
                                            [[maybe_unused]] int warp) {
    if constexpr (TileScheduler::Params::Coord::kRowsOfGroups) {
      auto const warpgroup_m = cute::get<1>(typename Config::TiledMma::ThrLayoutVMNK{}.get_flat_coord(warp * 32));
      int const rows = scheduler.rows_of_group();
      int const first = cluster.m * Config::kTileM + int(warpgroup_m) * 64;
      if (rows > kClusterTileM<Config> || rows > first) { return false; }
      // The first warp alone: a stage that has been released may become full again, and a slow warp that also waited for it
      // could miss a phase.
      if (warp % 4 == 0) {
        Pipe at = pipe;
        CUTE_NO_UNROLL
        for (int i = 0; i < k_tiles; ++i, ++at) {
          pipeline.full[at.stage].wait(at.phase);
          __syncwarp();
          pipeline.release_unread(at.stage, cluster);
        }
      }
      asm volatile("bar.sync %0, 128;" ::"r"(kSkipping + warp / 4) : "memory");
      pipe.advance(k_tiles);
      return true;
    } else {
      return false;
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
