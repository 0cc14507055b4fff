// Persistent tile scheduler for groups whose sizes are in device memory: one launch for many problems. The host knows only how
// many problems there are, and the total or the maximum of their rows.
//
// All lanes of a warp iterate together. Lane i has group i of a window of 32 groups: its rows, and the number of tiles up to
// its end, a prefix sum. Work tiles come in ascending order, so a warp only ever moves to the next window, whose sizes are
// loaded in advance. Every warp that loads or stores does this by itself, without a barrier or a list in memory.
#pragma once

#include <algorithm>

#include "sm90_cluster.cuh"
#include "sm90_group_tile.cuh"
#include "tile_scheduler.cuh"
#include "warp_scan.cuh"

namespace mmagen {
inline namespace v0_1 {

/// How the sizes of groups are given. kStacked: group g has the rows from offsets[g] to offsets[g + 1] of one matrix. kMasked:
/// it has the first m[g] rows of its own matrix.
enum class GroupSizes { kStacked, kMasked };

/// The status of a group: one word for each group, in device memory.
enum class GroupStatus : int {
  kComputed = 0,       // also a group without rows
  kNegativeSize = 1,   // its end lies before its begin, or its size is negative
  kOutOfRange = 2,     // it begins before row 0, or reaches beyond the last row
  kOverlapsOther = 3,  // it begins before the end of an earlier group
};

/// Cluster i computes the work tiles i, i + clusters, ... of all groups, whose tiles follow each other; within a group they
/// come in bands. A group whose rows are not legal has no tiles.
template <class Config, GroupSizes kSizes>
struct GroupedTileScheduler {
  static constexpr int kSplitK = 1;
  static constexpr bool kReduces = false;
  static constexpr bool kSharesTiles = false;
  static constexpr bool kHasEmptyWork = true;  // K may be 0
  static constexpr bool kStacked = kSizes == GroupSizes::kStacked;
  // Rows and columns of D of a cluster's tile; `sized`: along the mode in which groups differ.
  static constexpr int kTileSized = Config::kSwapped ? kClusterTileN<Config> : kClusterTileM<Config>;
  static constexpr int kTileOther = Config::kSwapped ? kClusterTileM<Config> : kClusterTileN<Config>;

  /// sizes: int32 in device memory. kStacked: G + 1 offsets, or G ends. kMasked: G numbers of rows.
  struct Arguments {
    int const* sizes;
    bool ends;
    int* status;  // null, or a GroupStatus for each group
  };

  struct Params {
    using Coord = GroupTileCoord<Config::kSwapped, kStacked>;
    static constexpr bool kWholeWarp = true;

    int const* sizes;  // kStacked: the end of group 0 and those that follow
    int const* first;  // kStacked: where group 0 begins; null for 0
    int* status;
    int groups;
    int rows;              // that there are, of all groups or of each
    unsigned tiles_other;  // of a cluster, along the mode that all groups have in common
    int k_tiles;
    unsigned most_tiles;  // that the sizes can make
  };

  template <class Args>
  static Arguments arguments(Args const& args) {
    Arguments found{};
    if constexpr (kStacked) {
      found.ends = args.group_offsets == nullptr;
      found.sizes = static_cast<int const*>(found.ends ? args.group_ends : args.group_offsets);
    } else {
      found.sizes = static_cast<int const*>(args.group_m);
    }
    found.status = static_cast<int*>(args.group_status);
    return found;
  }

  /// kGroupSizes unless the sizes are given in one of the ways.
  template <class Args>
  static Status check(Args const& args) {
    if constexpr (kStacked) {
      if ((args.group_offsets == nullptr) == (args.group_ends == nullptr)) { return Status::kGroupSizes; }
    }
    return Status::kSuccess;
  }

  /// `shape`: of the kernel's product; batch is the number of groups.
  static Status make_params(Params& params, GemmShape const& shape, Arguments const& args, int) {
    int64_t const rows = Config::kSwapped ? shape.n : shape.m;
    int64_t const other = Config::kSwapped ? shape.m : shape.n;
    params.sizes = args.sizes + (kStacked && !args.ends ? 1 : 0);
    params.first = kStacked && !args.ends ? args.sizes : nullptr;
    params.status = args.status;
    params.groups = int(shape.batch);
    params.rows = int(rows);
    params.tiles_other = unsigned(detail::ceil_div(other, kTileOther));
    params.k_tiles = int(detail::ceil_div(shape.k, Config::kTileK));
    // Stacked, each group adds at most one tile that is not full.
    int64_t const most =
        kStacked ? rows / kTileSized + std::min(shape.batch, rows) : detail::ceil_div(rows, kTileSized) * shape.batch;
    params.most_tiles = unsigned(std::min<int64_t>(most * params.tiles_other, kLargestExtent));
    return Status::kSuccess;
  }

  static unsigned grid(Params const& params, int resident) { return std::min(unsigned(resident), params.most_tiles); }

  static int64_t workspace_bytes(GemmShape const&, int) { return 0; }

  // Of the work tile: its group and that group's rows, and its index among the group's tiles.
  int group = 0, begin = 0, end = 0;
  unsigned index = 0;

  /// Call only after the preceding kernels have ended: they may write the sizes.
  CUTE_DEVICE GroupedTileScheduler(Params const& params, ClusterCoord<Config> const&)
      : tile(blockIdx.x / kClusterCtas<Config>) {
    next_size = load_size(params, 0);
    previous = kStacked && params.first != nullptr ? *params.first : 0;
    open_window(params, 0);
    find(params);
  }

  CUTE_DEVICE bool is_valid(Params const& params) const { return window < params.groups; }

  CUTE_DEVICE void advance(Params const& params) { skip(params, 1); }

  /// Skips `count` work tiles, which other warpgroups compute. Returns their k tiles.
  CUTE_DEVICE int skip(Params const& params, int count) {
    tile += unsigned(count) * (gridDim.x / kClusterCtas<Config>);
    if (is_valid(params)) { find(params); }
    return count * params.k_tiles;
  }

  CUTE_DEVICE WorkTileInfo work_tile(Params const& params) const { return {index, 0, params.k_tiles}; }

  /// How many rows the work tile's group has; call only with Params::Coord::kRowsOfGroups.
  CUTE_DEVICE int rows_of_group() const { return end - begin; }

  /// Nothing to add up: every output tile belongs to one CTA. Returns whether this CTA stores the tile.
  template <class Storage, class TensorRC>
  CUTE_DEVICE bool fixup(Params const&, WorkTileInfo const&, Storage&, TensorRC&) const {
    return true;
  }
  CUTE_DEVICE static void fixup_producer() {}

 private:
  unsigned tile;                     // index of the work tile, from the first tile of the window on
  int window = 0;                    // its first group
  int next_size = 0;                 // of this lane's group in the next window: what the memory says
  int previous = 0;                  // stacked: where the group before the window ends
  int reached = 0;                   // stacked: the largest end of the groups before the window
  int lane_begin = 0, lane_end = 0;  // rows of this lane's group
  unsigned tiles_to_end = 0;         // of this lane's group and those before it in the window

  CUTE_DEVICE static int lane_index() { return int(threadIdx.x) % 32; }

  CUTE_DEVICE static int load_size(Params const& params, int first_group) {
    int const mine = first_group + lane_index();
    return mine < params.groups ? params.sizes[mine] : 0;  // not by __ldg(), which may move before the wait on other kernels
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
    begin = __shfl_sync(detail::kAllLanes, lane_begin, holder);
    end = __shfl_sync(detail::kAllLanes, lane_end, holder);
    index = tile - (holder > 0 ? before : 0);
  }

  /// Gives each lane its group, and begins to load the sizes of the window after it.
  CUTE_DEVICE void open_window(Params const& params, int first_group) {
    int const lane = lane_index();
    int const size = next_size;
    bool const exists = first_group + lane < params.groups;
    next_size = load_size(params, first_group + 32);
    GroupStatus status = GroupStatus::kComputed;
    lane_end = size;
    if constexpr (kStacked) {
      int const before = __shfl_up_sync(detail::kAllLanes, size, 1);
      lane_begin = lane == 0 ? previous : before;
      int const ends = detail::prefix_max(size >= 0 && size <= params.rows ? size : 0, lane);
      int const ends_before = __shfl_up_sync(detail::kAllLanes, ends, 1);
      int const taken = lane == 0 || ends_before < reached ? reached : ends_before;
      previous = __shfl_sync(detail::kAllLanes, size, 31);
      int const last = __shfl_sync(detail::kAllLanes, ends, 31);
      reached = last > reached ? last : reached;
      if (lane_begin < taken) { status = lane_begin < 0 ? GroupStatus::kOutOfRange : GroupStatus::kOverlapsOther; }
      if (lane_end < lane_begin) { status = GroupStatus::kNegativeSize; }
    } else {
      if (size < 0) { status = GroupStatus::kNegativeSize; }
    }
    if (lane_end > params.rows) { status = GroupStatus::kOutOfRange; }
    bool const has_rows = exists && status == GroupStatus::kComputed;
    unsigned const tiles_sized = has_rows ? unsigned(lane_end - lane_begin + kTileSized - 1) / kTileSized : 0;
    tiles_to_end = detail::prefix_sum(tiles_sized * params.tiles_other, lane);
    // The producer warp of the first CTA visits all groups.
    if (params.status != nullptr && blockIdx.x == 0 && exists && int(threadIdx.x) / 32 == 4 * Config::kConsumers) {
      params.status[first_group + lane] = int(status);
    }
  }
};

/// The CTA's output tile, of the cluster's work tile. Within a group, bands of kRasterGroup rows of tiles, column by column.
template <class Config, GroupSizes kSizes, class Work>
CUTE_DEVICE auto cta_tile(GroupedTileScheduler<Config, kSizes> const& scheduler,
                          typename GroupedTileScheduler<Config, kSizes>::Params const& params, Work const& work,
                          ClusterCoord<Config> const& cluster) {
  using Scheduler = GroupedTileScheduler<Config, kSizes>;
  unsigned const tiles_sized = unsigned(scheduler.end - scheduler.begin + Scheduler::kTileSized - 1) / Scheduler::kTileSized;
  unsigned const tiles_m = Config::kSwapped ? params.tiles_other : tiles_sized;
  unsigned const tiles_n = Config::kSwapped ? tiles_sized : params.tiles_other;
  constexpr unsigned kGroup = Config::kRasterGroup;
  unsigned const first = work.tile / (kGroup * tiles_n) * kGroup;
  unsigned const within = work.tile - first * tiles_n;
  unsigned const rows = tiles_m - first < kGroup ? tiles_m - first : kGroup;
  unsigned const n = within / rows;
  unsigned const m = first + within - n * rows;
  return typename Scheduler::Params::Coord{int(m) * Config::kClusterM + cluster.m, int(n) * Config::kClusterN + cluster.n,
                                           scheduler.group, scheduler.begin, scheduler.end};
}

}  // namespace v0_1
}  // namespace mmagen
