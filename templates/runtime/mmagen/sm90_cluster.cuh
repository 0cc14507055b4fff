// CTAs of a cluster: which part of the cluster's work each of them has, and barriers among them.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_barrier.cuh"
#include "tile_raster.cuh"

namespace mmagen {
inline namespace v0_1 {

/// kClusterM x kClusterN CTAs share operands by multicast; with split-K, kSplitK CTAs share the K of each output tile.
template <class Config>
inline constexpr int kClusterCtas = Config::kClusterM * Config::kClusterN * Config::TileScheduler::kSplitK;

/// This CTA within its cluster: its output tile among those of the cluster, and its part of K.
template <class Config>
struct ClusterCoord {
  int rank, m, n, split;

  CUTE_DEVICE ClusterCoord() : rank(0) {
    if constexpr (kClusterCtas<Config> > 1) { rank = int(cute::block_rank_in_cluster()); }
    m = rank % Config::kClusterM;
    n = rank / Config::kClusterM % Config::kClusterN;
    split = rank / (Config::kClusterM * Config::kClusterN);
  }

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

/// The CTA's output tile, of the cluster's work tile. A scheduler whose tiles are not those of one raster overloads this.
template <class Config, class Scheduler, class Work>
CUTE_DEVICE TileCoord cta_tile(Scheduler const&, typename Scheduler::Params const& params, Work const& work,
                               ClusterCoord<Config> const& cluster) {
  TileCoord coord = params.raster(work.tile);
  coord.m = coord.m * Config::kClusterM + cluster.m;
  coord.n = coord.n * Config::kClusterN + cluster.n;
  return coord;
}

}  // namespace v0_1
}  // namespace mmagen
