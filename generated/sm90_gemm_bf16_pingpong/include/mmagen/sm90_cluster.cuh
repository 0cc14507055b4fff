// SPDX-License-Identifier: MIT-0
// CTAs of a cluster: which part of the cluster's work each CTA computes, and barriers among them.
#pragma once

#include <algorithm>

#include <cute/arch/cluster_sm90.hpp>
#include <cute/tensor.hpp>

#include "sm90_barrier.cuh"
#include "tile_raster.cuh"
#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

/// m x n CTAs share operands by multicast. tile_n: columns of the tile that each of them computes.
struct ClusterShape {
  int m, n, tile_n;

  CUTE_HOST_DEVICE constexpr int ctas() const { return m * n; }
};

/// The cluster shape that a Config fixes at compile time; with kClusterAtLaunch it is a parameter of the launch.
template <class Config>
constexpr ClusterShape static_cluster() {
  return {Config::kClusterM, Config::kClusterN, Config::kTileN};
}

/// CTAs of a cluster whose shape is fixed at compile time; with split-K, kSplitK CTAs share the K of each output tile.
template <class Config>
inline constexpr int kClusterCtas = Config::kClusterM * Config::kClusterN * Config::TileScheduler::kSplitK;

/// Rows and columns of D of a cluster's tile, if the cluster's shape is fixed at compile time.
template <class Config>
inline constexpr int kClusterTileM = Config::kTileM * Config::kClusterM;
template <class Config>
inline constexpr int kClusterTileN = Config::kTileN * Config::kClusterN;

/// CTAs of a cluster of a launch.
template <class Config>
constexpr int cluster_ctas(ClusterShape cluster) {
  return cluster.ctas() * Config::TileScheduler::kSplitK;
}

/// The index of this cluster in the grid.
template <class Config>
CUTE_DEVICE unsigned cluster_index() {
  if constexpr (Config::kClusterAtLaunch) {
    return cute::cluster_id_in_grid().x;
  } else {
    return blockIdx.x / kClusterCtas<Config>;
  }
}

/// The clusters of the grid.
template <class Config>
CUTE_DEVICE unsigned cluster_count() {
  if constexpr (Config::kClusterAtLaunch) {
    return cute::cluster_grid_dims().x;
  } else {
    return gridDim.x / kClusterCtas<Config>;
  }
}

/// Barrier among all threads of the cluster, without memory ordering.
template <class Config>
CUTE_DEVICE void sync_cluster_of() {
  if constexpr (Config::kClusterAtLaunch) {
    sync_cluster_relaxed<0>();
  } else {
    sync_cluster_relaxed<kClusterCtas<Config>>();
  }
}

/// This CTA within its cluster: its output tile among those of the cluster, and its part of K.
template <class Config, bool kAtLaunch = Config::kClusterAtLaunch>
struct ClusterCoord {
  static constexpr int kMostCtas = kClusterCtas<Config>;
  int rank, m, n, split;

  CUTE_DEVICE ClusterCoord() : rank(0) {
    if constexpr (kClusterCtas<Config> > 1) { rank = int(cute::block_rank_in_cluster()); }
    m = rank % Config::kClusterM;
    n = rank / Config::kClusterM % Config::kClusterN;
    split = rank / (Config::kClusterM * Config::kClusterN);
  }

  CUTE_DEVICE static constexpr ClusterShape shape() { return static_cluster<Config>(); }

  /// Rank of the CTA at (m, n) that works on the same part of K.
  CUTE_DEVICE int rank_of(int other_m, int other_n) const {
    return other_m + Config::kClusterM * (other_n + Config::kClusterN * split);
  }

  /// CTAs that need the same tile of A: those of this row.
  CUTE_DEVICE uint16_t mask_a() const {
    unsigned mask = 0;
    for (int i = 0; i < Config::kClusterN; ++i) { mask |= 1u << rank_of(m, i); }
    return uint16_t(mask);
  }

  /// CTAs that need the same tile of B: those of this column.
  CUTE_DEVICE uint16_t mask_b() const {
    unsigned mask = 0;
    for (int i = 0; i < Config::kClusterM; ++i) { mask |= 1u << rank_of(i, n); }
    return uint16_t(mask);
  }

  /// Does this CTA read operands that the CTA of rank `other` loads?
  CUTE_DEVICE bool reads_from(int other) const { return ((mask_a() | mask_b()) >> other) & 1; }
};

/// The same for clusters whose shape is a parameter of the launch.
template <class Config>
struct ClusterCoord<Config, true> {
  static_assert(Config::TileScheduler::kSplitK == 1, "the CTAs of the cluster compute different output tiles");
  static constexpr int kMostCtas = 8;  // which every device with clusters supports
  static constexpr int split = 0;
  int rank, m, n;

  CUTE_DEVICE explicit ClusterCoord(ClusterShape shape) : shape_(shape) {
    dim3 const at = cute::block_id_in_cluster();
    m = int(at.x), n = int(at.y);
    rank = m + shape_.m * n;
    unsigned row = 0;
    CUTE_NO_UNROLL
    for (int i = 0; i < shape_.n; ++i) { row |= 1u << (m + shape_.m * i); }
    mask_a_ = uint16_t(row);
    mask_b_ = uint16_t(((1u << shape_.m) - 1) << (shape_.m * n));
  }

  CUTE_DEVICE ClusterShape shape() const { return shape_; }
  CUTE_DEVICE uint16_t mask_a() const { return mask_a_; }
  CUTE_DEVICE uint16_t mask_b() const { return mask_b_; }
  CUTE_DEVICE bool reads_from(int other) const { return ((mask_a_ | mask_b_) >> other) & 1; }

 private:
  ClusterShape shape_;
  uint16_t mask_a_, mask_b_;
};

/// The shape of this launch's clusters. It is a kernel parameter, which the compiler knows to be uniform. It does not know that
/// %cluster_nctaid is: a TMA instruction behind a branch on that register would be put into a loop over the active threads, see
/// elect_one().
template <class Config, class Params>
CUTE_HOST_DEVICE constexpr ClusterShape cluster_shape([[maybe_unused]] Params const& params) {
  if constexpr (Config::kClusterAtLaunch) {
    return params.cluster;
  } else {
    return static_cluster<Config>();
  }
}

/// This CTA within its cluster.
template <class Config, class Params>
CUTE_DEVICE ClusterCoord<Config> cluster_coord([[maybe_unused]] Params const& params) {
  if constexpr (Config::kClusterAtLaunch) {
    return ClusterCoord<Config>(params.cluster);
  } else {
    return ClusterCoord<Config>();
  }
}

/// The CTA's output tile, of the cluster's work tile. A scheduler whose tiles are not those of one raster overloads this.
template <class Config, class Scheduler, class Work>
CUTE_DEVICE TileCoord cta_tile(Scheduler const&, typename Scheduler::Params const& params, Work const& work,
                               ClusterCoord<Config> const& cluster) {
  TileCoord coord = params.raster(work.tile);
  coord.m = coord.m * cluster.shape().m + cluster.m;
  coord.n = coord.n * cluster.shape().n + cluster.n;
  return coord;
}

/// Columns of a tile that this launch computes.
template <class Config, class Params>
CUTE_HOST_DEVICE constexpr int launched_tile_n([[maybe_unused]] Params const& params) {
  if constexpr (Config::kTileNAtLaunch) {
    return params.tile_n;
  } else {
    return Config::kTileN;
  }
}

namespace detail {

/// The work tiles of the tile scheduler, one for each cluster. kRasterGroup counts rows of cluster tiles if the cluster's shape
/// is fixed at compile time, else rows of CTA tiles.
template <class Config>
void make_tiles_of_clusters(TileSchedulerParams& params, GemmShape const& shape, ClusterShape cluster) {
  int const group = Config::kClusterAtLaunch ? std::max(1, Config::kRasterGroup / cluster.m) : Config::kRasterGroup;
  make_tile_params(params, shape, Config::kTileM * cluster.m, cluster.tile_n * cluster.n, Config::kTileK, group);
}

}  // namespace detail

}  // namespace v0_1
}  // namespace mmagen
