// Persistent tile scheduler: launches as many clusters as run at once; each computes several output tiles.
#pragma once

#include <algorithm>

#include "sm90_cluster.cuh"
#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Cluster i computes the output tiles i, i + clusters, i + 2 * clusters, ... in raster order.
template <class Config>
struct PersistentTileScheduler {
  static constexpr int kSplitK = 1;
  static constexpr bool kReduces = false;
  static constexpr bool kSharesTiles = false;
  static constexpr bool kHasEmptyWork = false;

  struct Arguments {};
  using Params = TileSchedulerParams;

  template <class Args>
  static Arguments arguments(Args const&) {
    return {};
  }

  static Status make_params(Params& params, GemmShape const& shape, Arguments const&, int, ClusterShape cluster) {
    detail::make_tiles_of_clusters<Config>(params, shape, cluster);
    return Status::kSuccess;
  }

  static unsigned grid(Params const& params, int resident) { return std::min(unsigned(resident), params.tiles); }

  static int64_t workspace_bytes(GemmShape const&, int, ClusterShape) { return 0; }

  unsigned tile = cluster_index<Config>();

  CUTE_DEVICE PersistentTileScheduler(Params const&, ClusterCoord<Config> const&) {}

  CUTE_DEVICE bool is_valid(Params const& params) const { return tile < params.tiles; }

  CUTE_DEVICE void advance(Params const&) { tile += cluster_count<Config>(); }

  /// Skips `count` work tiles, which other warpgroups compute. Returns their k tiles.
  CUTE_DEVICE int skip(Params const& params, int count) {
    tile += unsigned(count) * cluster_count<Config>();
    return count * params.k_tiles;
  }

  CUTE_DEVICE WorkTileInfo work_tile(Params const& params) const { return {tile, 0, params.k_tiles}; }

  /// Nothing to add up: every output tile belongs to one CTA. Returns whether this CTA stores the tile.
  template <class Storage, class TensorRC>
  CUTE_DEVICE bool fixup(Params const&, WorkTileInfo const&, Storage&, TensorRC&) const {
    return true;
  }
  CUTE_DEVICE static void fixup_producer() {}
};

}  // namespace v0_1
}  // namespace mmagen
