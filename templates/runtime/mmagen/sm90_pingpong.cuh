// Pingpong schedule: one thread loads, the math warpgroups take turns; each multiplies a CTA tile of its own while the
// others store theirs.
#pragma once

#include "sm90_epilogue.cuh"
#include "sm90_multiply.cuh"
#include "sm90_producer.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct Sm90Pingpong {
  using Storage = Sm90Storage<Config>;
  static_assert(cute::size(typename Config::TiledMma{}) == 128, "a tile belongs to one warpgroup");
  static_assert(!Config::kStreamK && Config::kSplitK == 1, "a turn is a whole tile");
  static_assert(Config::kConsumers >= 2, "one warpgroup cannot take turns");
  static_assert(Config::kThreads == 128 * (Config::kConsumers + 1), "and one more loads");

  CUTE_DEVICE static void run(Sm90Params<Config> const& params, Storage& storage) {
    using namespace cute;
    prepare<Config>(params, storage, 1);
    int const warp = warp_index();

    if (warp >= 4 * Config::kConsumers) {
      release_registers<Config::kProducerRegisters>();
      if (warp == 4 * Config::kConsumers && threadIdx.x % 32 == 0) { produce<Config>(params, storage); }
      __syncwarp();
    } else {
      take_registers<Config::kConsumerRegisters>();
      ClusterPlace<Config> const place;
      int const k_tiles = Walk<Config>(params).piece(params, place).count;  // of every tile
      int const warpgroup = warp / 4;
      int const thread = threadIdx.x % 128;
      Tensor tCrC = partition_fragment_C(typename Config::TiledMma{},
                                         Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
      Barrier& mine = storage.turn[warpgroup];
      Barrier& next = storage.turn[(warpgroup + 1) % Config::kConsumers];

      // The stages of a tile follow those of the tile before. The turn keeps two tiles' multiplies from mixing, and a
      // warpgroup from waiting for a stage that is two phases away.
      Walk<Config> walk(params);
      PipelineState<Config::kStages> pipe;
      for (int i = 0; i < warpgroup; ++i) { walk.advance(params); }
      pipe.skip(warpgroup * k_tiles);
      wait_for_last_launch();
      auto const release = [&](int stage) { release_stage<Config>(storage, stage, place); };
      uint32_t parity = warpgroup == 0 ? 1 : 0;  // the first turn is the first warpgroup's, before anyone passes it on
      unsigned turn = 0;
      while (walk.inside(params)) {
        mine.wait(parity);
        parity ^= 1;
        TileCoord tile;
        multiply<Config>(storage, pipe, k_tiles, thread, tCrC, release, [&] {
          if (thread == 0) { next.arrive(); }
          tile = cta_tile<Config>(params, walk.linear, place);
          settle(tile);
        });
        Sm90Epilogue<Config>::run(params, storage, tCrC, tile, 0, thread, warp, turn);
        for (int i = 0; i < Config::kConsumers; ++i) { walk.advance(params); }
        pipe.skip((Config::kConsumers - 1) * k_tiles);
      }
      Sm90Epilogue<Config>::finish();
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
