// SPDX-License-Identifier: MIT-0
// Pingpong kernel: one producer thread loads, and each consumer warpgroup computes a CTA tile of its own. They take turns: one
// issues wgmma while the others run their epilogues.
#pragma once

#include "sm90_kernel.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct Sm90Pingpong {
  using Mainloop = typename Config::Mainloop;
  using TileScheduler = typename Config::TileScheduler;
  using Epilogue = typename Config::Epilogue;
  static_assert(cute::size(typename Config::TiledMma{}) == 128, "a tile belongs to one warpgroup");
  static_assert(!TileScheduler::kSharesTiles, "a turn is a whole output tile");
  static_assert(Config::kConsumers >= 2, "taking turns needs two warpgroups");
  static constexpr int kSeen = 3;  // + warpgroup: a named barrier of each; stream-K and parts of K have 1 and 2
  static_assert(kSeen + Config::kConsumers <= Epilogue::kNamedBarrier, "from there on they belong to the epilogue");
  static_assert(Config::kThreads == 128 * (Config::kConsumers + 1), "one more warpgroup loads");

  CUTE_DEVICE static void run(Sm90Params<Config> const& params, Sm90SharedStorage<Config>& storage) {
    using namespace cute;
    prologue<Config>(params, storage, 1);
    int const warp = warp_index();

    if (warp >= 4 * Config::kConsumers) {
      warpgroup_reg_dealloc<Config::kProducerRegisters>();
      if (warp == 4 * Config::kConsumers && (TileScheduler::Params::kWholeWarp || elect_one())) {
        Mainloop::load(params.mainloop, params.scheduler, storage.mainloop, storage.pipeline);
      }
      if constexpr (Mainloop::kScalesK) {
        if (warp == 4 * Config::kConsumers + 1) { Mainloop::load_scales(params.mainloop, params.scheduler, storage.pipeline); }
      }
    } else {
      warpgroup_reg_alloc<Config::kConsumerRegisters>();
      auto const cluster = cluster_coord<Config>(params.mainloop);
      int const warpgroup = warp / 4;
      int const thread = threadIdx.x % 128;
      Tensor tCrC = partition_fragment_C(typename Config::TiledMma{},
                                         Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
      Barrier& mine = storage.turn[warpgroup];
      Barrier& next = storage.turn[(warpgroup + 1) % Config::kConsumers];

      // The stages of a tile follow those of the preceding tile. The turn keeps the wgmmas of two tiles apart, and keeps a
      // warpgroup from waiting for a stage that is two phases ahead.
      auto pipe = first_stage<Config>(params.mainloop);
      Epilogue::init(params.epilogue, storage.source, warp, thread % 32);
      wait_on_dependent_grids();
      TileScheduler scheduler(params.scheduler, cluster);
      pipe.advance(scheduler.skip(params.scheduler, warpgroup));
      auto const release = [&](int stage) { storage.pipeline.release(stage, cluster); };
      uint32_t parity = warpgroup == 0 ? 1 : 0;  // the first warpgroup's first turn needs no arrival
      typename Epilogue::Slices slices;
      while (scheduler.is_valid(params.scheduler)) {
        mine.wait(parity);
        parity ^= 1;
        // Warp 0 gives the turn to the next warpgroup when the other warps have seen this one: none may be so late that its
        // turn comes round again before.
        if (warp % 4 != 0) { asm volatile("bar.arrive %0, 128;" ::"r"(kSeen + warpgroup) : "memory"); }
        WorkTileInfo const work = scheduler.work_tile(params.scheduler);
        typename TileScheduler::Params::Coord tile;
        auto const issued = [&] {
          if (warp % 4 == 0) {
            asm volatile("bar.sync %0, 128;" ::"r"(kSeen + warpgroup) : "memory");
            if (thread == 0) { next.arrive(); }
          }
          tile = cta_tile<Config>(scheduler, params.scheduler, work, cluster);
          materialize(tile);
          if constexpr (Mainloop::kScalesTile) {
            if (!TileScheduler::kHasEmptyWork || work.k_tiles > 0) {
              Mainloop::prefetch_tile_scales(params.mainloop.tile_scales, tile, thread);
            }
          }
          Epilogue::begin(params.epilogue, storage.epilogue, storage.source, tile, 0, thread, warp, slices);
        };
        if ((TileScheduler::kHasEmptyWork || Mainloop::kTakesEmptyK) && work.k_tiles == 0) {
          clear(tCrC);
          issued();
        } else {
          if constexpr (Mainloop::kTakesTile) {
            Mainloop::mma(params.mainloop, cta_tile<Config>(scheduler, params.scheduler, work, cluster), work.k_begin,
                          storage.mainloop, storage.pipeline, pipe, work.k_tiles, thread, tCrC, release, issued);
          } else {
            Mainloop::mma(storage.mainloop, storage.pipeline, pipe, work.k_tiles, thread, tCrC, release, issued);
          }
          if constexpr (Mainloop::kScalesTile) { Mainloop::scale_tile(params.mainloop.tile_scales, tile, thread, tCrC); }
        }
        Epilogue::store(params.epilogue, storage.epilogue, storage.source, tCrC, tile, 0, thread, warp, slices);
        scheduler.advance(params.scheduler);
        pipe.advance(scheduler.skip(params.scheduler, Config::kConsumers - 1));
      }
      Epilogue::wait_for_stores();
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
