// Warpgroup schedule, the readable one: every warpgroup multiplies, one of their threads also loads. One CTA, one tile.
#pragma once

#include "sm90_epilogue.cuh"
#include "sm90_multiply.cuh"
#include "sm90_producer.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct Sm90Warpgroup {
  using Storage = Sm90Storage<Config>;
  static constexpr int kStages = Config::kStages;
  static_assert(cute::size(typename Config::TiledMma{}) == Config::kThreads, "every thread multiplies");
  static_assert(!Config::kStreamK && !Config::kPersistent, "one CTA, one tile");
  static_assert(kClusterCtas<Config> == 1, "stages are handed back by a barrier of one CTA");

  CUTE_DEVICE static void run(Sm90Params<Config> const& params, Storage& storage) {
    using namespace cute;
    prepare<Config>(params, storage, Config::kConsumers);
    ClusterPlace<Config> const place;
    Piece const piece = Walk<Config>(params).piece(params, place);
    TileCoord const tile = cta_tile<Config>(params, piece.linear, place);
    int const k_tiles = piece.count;
    bool const loads = threadIdx.x == 0;
    if constexpr (Config::kPrefetch > 0) {
      if (loads) { prefetch_stages<Config>(params, tile, 0, k_tiles, place); }
    }
    wait_for_last_launch();

    // Fill: every stage; each is filled again as soon as all warpgroups have read it.
    int next = 0;
    if (loads) {
      for (; next < min(kStages, k_tiles); ++next) { load_stage<Config>(params, storage, next, next, tile, place); }
    }

    Tensor tCrC = partition_fragment_C(typename Config::TiledMma{},
                                       Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
    PipelineState<kStages> pipe;
    multiply<Config>(
        storage, pipe, k_tiles, threadIdx.x, tCrC,
        [&](int stage) {
          __syncthreads();
          if (loads && next < k_tiles) { load_stage<Config>(params, storage, stage, next++, tile, place); }
        },
        [] {});

    unsigned turn = 0;
    Sm90Epilogue<Config>::run(params, storage, tCrC, tile, 0, threadIdx.x, threadIdx.x / 32, turn);
    Sm90Epilogue<Config>::finish();
  }
};

}  // namespace v0_1
}  // namespace mmagen
