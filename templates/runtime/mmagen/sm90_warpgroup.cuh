// Warpgroup kernel, the simplest one: no warp specialization. All warpgroups compute one CTA tile together, and one of their
// threads also issues the loads.
#pragma once

#include "sm90_kernel.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct Sm90Warpgroup {
  using Mainloop = typename Config::Mainloop;
  using TileScheduler = typename Config::TileScheduler;
  using Epilogue = typename Config::Epilogue;
  static constexpr int kStages = Config::kStages;
  static_assert(cute::size(typename Config::TiledMma{}) == Config::kThreads, "every thread multiplies");
  static_assert(kClusterCtas<Config> == 1, "stages are released by a barrier of one CTA");
  static_assert(!Mainloop::kScalesK, "no warp is left to copy the scales of k tiles");

  CUTE_DEVICE static void run(Sm90Params<Config> const& params, Sm90SharedStorage<Config>& storage) {
    using namespace cute;
    prologue<Config>(params, storage, Config::kConsumers);
    ClusterCoord<Config> const cluster;
    WorkTileInfo const work = TileScheduler::work_tile(params.scheduler);
    TileCoord const tile = params.scheduler.raster(work.tile);
    int const warp = warp_index();
    if constexpr (Config::kPrefetch > 0) {
      if (warp == 0 && elect_one()) { Mainloop::prefetch_stages(params.mainloop, tile, work, cluster); }
    }
    Epilogue::init(params.epilogue, storage.source, threadIdx.x / 32, threadIdx.x % 32);
    wait_on_dependent_grids();

    // Load all stages; each is loaded again as soon as all warpgroups have read it.
    LoadedRows const rows = Mainloop::rows_of(params.mainloop, tile);
    auto const load = [&](int stage, int k_tile) {
      Mainloop::load_stage(params.mainloop, storage.mainloop, storage.pipeline, stage, k_tile, tile, rows, cluster);
    };
    int next = min(kStages, work.k_tiles);  // the k tile to load next
    if (warp == 0 && elect_one()) {
      for (int i = 0; i < next; ++i) { load(i, i); }
    }

    Tensor tCrC = partition_fragment_C(typename Config::TiledMma{},
                                       Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
    PipelineState<kStages> pipe;
    auto const release = [&](int stage) {
      __syncthreads();
      if (next < work.k_tiles && warp == 0 && elect_one()) { load(stage, next); }
      ++next;
    };
    auto const issued = [&] {
      if constexpr (Mainloop::kScalesTile) { Mainloop::prefetch_tile_scales(params.mainloop.tile_scales, tile, threadIdx.x); }
    };
    if (Mainloop::kTakesEmptyK && work.k_tiles == 0) {
      clear(tCrC);
      issued();
    } else {
      Mainloop::mma(storage.mainloop, storage.pipeline, pipe, work.k_tiles, threadIdx.x, tCrC, release, issued);
    }
    if constexpr (Mainloop::kScalesTile) { Mainloop::scale_tile(params.mainloop.tile_scales, tile, threadIdx.x, tCrC); }

    typename Epilogue::Slices slices;
    Epilogue::store(params.epilogue, storage.epilogue, storage.source, tCrC, tile, 0, threadIdx.x, threadIdx.x / 32, slices);
    Epilogue::wait_for_stores();
  }
};

}  // namespace v0_1
}  // namespace mmagen
