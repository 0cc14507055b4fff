// Cooperative schedule: one thread loads, all math warpgroups multiply one CTA tile together.
#pragma once

#include "sm90_epilogue.cuh"
#include "sm90_multiply.cuh"
#include "sm90_producer.cuh"
#include "sm90_split_k.cuh"
#include "sm90_stream_k.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct Sm90Cooperative {
  using Storage = Sm90Storage<Config>;
  static_assert(cute::size(typename Config::TiledMma{}) == 128 * Config::kConsumers, "all of them share a tile");
  static_assert(Config::kThreads == 128 * (Config::kConsumers + 1), "and one more loads");
  static_assert(Config::kSplitK == 1 || !Config::kPersistent, "the exchange of sums takes the whole CTA, once");

  CUTE_DEVICE static void run(Sm90Params<Config> const& params, Storage& storage) {
    using namespace cute;
    prepare<Config>(params, storage, Config::kConsumers);
    ClusterPlace<Config> const place;
    Tensor tCrC = partition_fragment_C(typename Config::TiledMma{},
                                       Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
    int const warp = warp_index();

    if (warp >= 4 * Config::kConsumers) {
      release_registers<Config::kProducerRegisters>();
      if (warp == 4 * Config::kConsumers && threadIdx.x % 32 == 0) { produce<Config>(params, storage); }
      __syncwarp();
      if constexpr (Config::kSplitK > 1) { Sm90SplitK<Config>::run(storage, tCrC, place, false); }
    } else {
      take_registers<Config::kConsumerRegisters>();
      PipelineState<Config::kStages> pipe;
      wait_for_last_launch();
      auto const release = [&](int stage) { release_stage<Config>(storage, stage, place); };
      unsigned turn = 0;
      for (Walk<Config> walk(params); walk.inside(params); walk.advance(params)) {
        Piece const piece = walk.piece(params, place);
        TileCoord tile;
        multiply<Config>(storage, pipe, piece.count, threadIdx.x, tCrC, release, [&] {
          tile = cta_tile<Config>(params, piece.linear, place);
          settle(tile);
        });
        if constexpr (Config::kSplitK > 1) { Sm90SplitK<Config>::run(storage, tCrC, place, true); }
        if constexpr (Config::kStreamK) {
          if (!piece.stores) {
            give_partial<Config>(params, tCrC, walk.cluster, place);
            continue;
          }
          if (piece.begin > 0) { add_partials<Config>(params, tCrC, walk.cluster, piece, place); }
        }
        Sm90Epilogue<Config>::run(params, storage, tCrC, tile, place.split, threadIdx.x, warp, turn);
      }
      Sm90Epilogue<Config>::finish();
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
