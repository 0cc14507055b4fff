// The simplest tile scheduler: one output tile for each CTA.
#pragma once

#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

/// One output tile for each CTA; no clusters.
template <class Config>
struct SingleTileScheduler {
  static constexpr int kSplitK = 1;            // CTAs that share the K of a tile
  static constexpr bool kSharesTiles = false;  // may several CTAs compute parts of one tile?

  struct Arguments {};
  using Params = TileSchedulerParams;

  template <class Args>
  static Arguments arguments(Args const&) {
    return {};
  }

  static void make_params(Params& params, GemmShape const& shape) {
    detail::make_tile_params(params, shape, Config::kTileM, Config::kTileN, Config::kTileK, Config::kRasterGroup);
  }

  /// As above; the number of CTAs that run at once does not matter.
  static Status make_params(Params& params, GemmShape const& shape, Arguments const&, int) {
    make_params(params, shape);
    return Status::kSuccess;
  }

  /// CTAs of the grid.
  static unsigned grid(Params const& params, int = 0) { return params.tiles; }

  static int64_t workspace_bytes(int) { return 0; }

  CUTE_DEVICE static WorkTileInfo work_tile(Params const& params) { return {blockIdx.x, 0, params.k_tiles}; }
};

}  // namespace v0_1
}  // namespace mmagen
