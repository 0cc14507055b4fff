// Persistent tile scheduler for groups of separate matrices, whose M, N and K are in device memory.
//
// A preceding kernel has written the tiles and matrices of each group to the workspace (sm90_prepare_groups.cuh). Tiles are
// found as in GroupedTileScheduler: lane i has group i of a window of 32 groups and the number of tiles up to its end.
#pragma once

#include <algorithm>

#include "sm90_cluster.cuh"
#include "sm90_pointer_groups.cuh"
#include "tile_scheduler.cuh"
#include "warp_scan.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Cluster i computes the work tiles i, i + clusters, ... of all groups, whose tiles follow each other; within a group they
/// come in bands.
template <class Config>
struct PointerTileScheduler {
  static constexpr int kSplitK = 1;
  static constexpr bool kReduces = false;
  static constexpr bool kSharesTiles = false;
  static constexpr bool kHasEmptyWork = true;  // a group may have a K of 0
  using Matrices = GroupMatrices<typename Config::ElementD>;

  struct Params {
    using Coord = PointerTileCoord<typename Config::ElementD>;
    static constexpr bool kWholeWarp = true;

    GroupTiles const* tiles;  // of each group
    Matrices const* matrices;
    int groups;
    unsigned most_tiles;  // that the extents of the call can make
  };

  /// `shape`: of the kernel's product, the largest extents; batch is the number of groups.
  static Params make_params(GemmShape const& shape, Matrices const* matrices, GroupTiles const* tiles) {
    int64_t const m = detail::ceil_div(shape.m, int64_t(Config::kTileM) * Config::kClusterM);
    int64_t const n = detail::ceil_div(shape.n, int64_t(Config::kTileN) * Config::kClusterN);
    return {tiles, matrices, int(shape.batch), unsigned(std::min<int64_t>(m * n * shape.batch, kLargestExtent))};
  }

  static unsigned grid(Params const& params, int resident) { return std::min(unsigned(resident), params.most_tiles); }

  // Of the work tile: its group, its index among the group's tiles, and the tiles of the group.
  int group = 0;
  unsigned index = 0;
  GroupTiles of_group = {};

  /// Call only after the preceding kernel has ended.
  CUTE_DEVICE PointerTileScheduler(Params const& params, ClusterCoord<Config> const&)
      : tile(blockIdx.x / kClusterCtas<Config>) {
    next = load(params, 0);
    open_window(params, 0);
    find(params);
  }

  CUTE_DEVICE bool is_valid(Params const& params) const { return window < params.groups; }

  CUTE_DEVICE void advance(Params const& params) { skip(params, 1); }

  /// Skips `count` work tiles, which other warpgroups compute. Returns their k tiles, which differ between groups.
  CUTE_DEVICE int skip(Params const& params, int count) {
    int k_tiles = 0;
    for (int i = 0; i < count && is_valid(params); ++i) {
      k_tiles += of_group.k;
      tile += gridDim.x / kClusterCtas<Config>;
      find(params);
    }
    return k_tiles;
  }

  CUTE_DEVICE WorkTileInfo work_tile(Params const&) const { return {index, 0, of_group.k}; }

  /// How many rows the work tile's group has.
  CUTE_DEVICE int rows_of_group() const { return of_group.rows; }

  /// Nothing to add up: every output tile belongs to one CTA. Returns whether this CTA stores the tile.
  template <class Storage, class TensorRC>
  CUTE_DEVICE bool fixup(Params const&, WorkTileInfo const&, Storage&, TensorRC&) const {
    return true;
  }
  CUTE_DEVICE static void fixup_producer() {}

 private:
  unsigned tile;              // index of the work tile, from the first tile of the window on
  int window = 0;             // its first group
  GroupTiles own = {};        // of this lane's group
  GroupTiles next = {};       // of this lane's group in the next window
  unsigned tiles_to_end = 0;  // of this lane's group and those before it in the window

  CUTE_DEVICE static GroupTiles load(Params const& params, int first_group) {
    int const mine = first_group + int(threadIdx.x) % 32;
    if (mine >= params.groups) { return {}; }
    // Volatile: not before the wait on the kernel that writes it.
    int4 found;
    asm volatile("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
                 : "l"(params.tiles + mine)
                 : "memory");
    return {found.x, found.y, found.z, found.w};
  }

  /// Gives each lane its group, and begins to load the window after it.
  CUTE_DEVICE void open_window(Params const& params, int first_group) {
    own = next;
    next = load(params, first_group + 32);
    tiles_to_end = detail::prefix_sum(unsigned(own.m) * unsigned(own.n), int(threadIdx.x) % 32);
  }

  /// Moves on to the window that has the work tile, and finds the group there.
  CUTE_DEVICE void find(Params const& params) {
    unsigned holders;
    while ((holders = __ballot_sync(detail::kAllLanes, tile < tiles_to_end)) == 0) {
      tile -= __shfl_sync(detail::kAllLanes, tiles_to_end, 31);
      window += 32;
      if (window >= params.groups) { return; }
      open_window(params, window);
    }
    int const holder = __ffs(int(holders)) - 1;
    unsigned const before = __shfl_sync(detail::kAllLanes, tiles_to_end, holder > 0 ? holder - 1 : 0);
    group = window + holder;
    of_group.m = __shfl_sync(detail::kAllLanes, own.m, holder);
    of_group.n = __shfl_sync(detail::kAllLanes, own.n, holder);
    of_group.k = __shfl_sync(detail::kAllLanes, own.k, holder);
    of_group.rows = __shfl_sync(detail::kAllLanes, own.rows, holder);
    index = tile - (holder > 0 ? before : 0);
  }
};

/// The CTA's output tile, of the cluster's work tile. Within a group, bands of kRasterGroup rows of tiles, column by column.
template <class Config, class Work>
CUTE_DEVICE auto cta_tile(PointerTileScheduler<Config> const& scheduler,
                          typename PointerTileScheduler<Config>::Params const& params, Work const& work,
                          ClusterCoord<Config> const& cluster) {
  unsigned const tiles_m = unsigned(scheduler.of_group.m), tiles_n = unsigned(scheduler.of_group.n);
  constexpr unsigned kGroup = Config::kRasterGroup;
  unsigned const first = work.tile / (kGroup * tiles_n) * kGroup;
  unsigned const within = work.tile - first * tiles_n;
  unsigned const rows = tiles_m - first < kGroup ? tiles_m - first : kGroup;
  unsigned const n = within / rows;
  unsigned const m = first + within - n * rows;
  return typename PointerTileScheduler<Config>::Params::Coord{int(m) * Config::kClusterM + cluster.m,
                                                              int(n) * Config::kClusterN + cluster.n, scheduler.group,
                                                              scheduler.of_group.rows, params.matrices + scheduler.group};
}

}  // namespace v0_1
}  // namespace mmagen
