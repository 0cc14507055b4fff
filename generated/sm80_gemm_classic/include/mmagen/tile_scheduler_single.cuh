// SPDX-License-Identifier: MIT-0
// The simplest tile scheduler: one output tile for each CTA.
#pragma once

#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

/// One output tile for each CTA, without clusters. Its only work tile needs no state: work_tile() is static.
template <class Config>
struct SingleTileScheduler {
  static constexpr int kSplitK = 1;
  static constexpr bool kReduces = false;
  static constexpr bool kSharesTiles = false;

  struct Arguments {};
  using Params = TileSchedulerParams;

  template <class Args>
  static Arguments arguments(Args const&) {
    return {};
  }

  /// Hopper's launch code passes the shape of the clusters too, which are single CTAs here.
  template <class... Cluster>
  static Status make_params(Params& params, GemmShape const& shape, Arguments const&, int, Cluster...) {
    detail::make_tile_params(params, shape, Config::kTileM, Config::kTileN, Config::kTileK, Config::kRasterGroup);
    return Status::kSuccess;
  }

  static unsigned grid(Params const& params, int) { return params.tiles; }

  template <class... Cluster>
  static int64_t workspace_bytes(GemmShape const&, int, Cluster...) {
    return 0;
  }

  CUTE_DEVICE static WorkTileInfo work_tile(Params const& params) { return {blockIdx.x, 0, params.k_tiles}; }
};

}  // namespace v0_1
}  // namespace mmagen
