// SPDX-License-Identifier: MIT-0
// Stream-K tile scheduler: persistent, but the output tiles that would not fill a last wave are divided into equal ranges of
// k tiles, one for each cluster. In the fixup, clusters that share an output tile add up their partial sums through a
// workspace in global memory, always in the same order.
//
// A cluster leaves the partial sums of at most one tile, the one that its range ends in. The cluster that has the tile's
// last k tile waits for the clusters before it. These were launched earlier and wait for no other: there is no deadlock.
#pragma once

#include <algorithm>
#include <atomic>
#include <ctime>
#include <type_traits>

#include <cute/tensor.hpp>

#include "sm90_cluster.cuh"
#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// A number that no other launch of any process is likely to have, never 0: an address, a time and a count, scrambled by the
/// finalizer of SplitMix64. Nothing here needs the C++ library when a C program is linked: neither a clock of <chrono> nor a
/// guarded static variable.
inline uint64_t launch_number() {
  static std::atomic<uint64_t> count{};
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  uint64_t number = uint64_t(reinterpret_cast<uintptr_t>(&count)) ^ (uint64_t(now.tv_sec) << 32) ^ uint64_t(now.tv_nsec);
  number += 0x9e3779b97f4a7c15u * ++count;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  number ^= number >> 31;
  return number != 0 ? number : 1;
}

}  // namespace detail

/// kAlways: the tiles of a last wave are shared however full it is, which helps if no other cluster reads a cluster's operands.
/// Each cluster first computes its range of the shared tiles, from its end backwards, then whole tiles. The range's end lies
/// in a tile that the next cluster finishes: its partial sums are ready long before they are read.
template <class Config, bool kAlways>
struct StreamKTileScheduler {
  static constexpr int kSplitK = 1;
  static constexpr bool kReduces = false;
  static constexpr bool kSharesTiles = true;
  static constexpr bool kHasEmptyWork = false;

  struct Arguments {
    void* workspace;
    int64_t workspace_bytes;
  };

  struct Params : TileSchedulerParams {
    unsigned shared_tiles;         // the first tiles in raster order; 0: none are shared
    unsigned k_tiles_each, extra;  // cluster i has a range of k_tiles_each k tiles, and one more if i < extra
    FastDivmod divide_by_k_tiles;
    float4* partials;  // one CTA tile of sums, of 32 bits each, for each CTA
    uint64_t* ready;   // a flag for each CTA: `launch` once its partial sums have been written
    uint64_t launch;   // differs from what an earlier use has left in the flags, which nobody clears beforehand
  };

  template <class Args>
  static Arguments arguments(Args const& args) {
    return {args.workspace, args.workspace_bytes};
  }

  /// Without a workspace that is large enough every tile is computed by one cluster.
  static Status make_params(Params& params, GemmShape const& shape, Arguments const& arguments, int resident,
                            ClusterShape cluster) {
    if (!is_aligned_to<float4>(arguments.workspace)) { return Status::kMisalignedWorkspace; }
    detail::make_tiles_of_clusters<Config>(params, shape, cluster);
    params.divide_by_k_tiles = FastDivmod(unsigned(std::max(params.k_tiles, 1)));  // none are shared where K is 0
    share_last_wave(params, unsigned(resident));
    if (params.shared_tiles == 0) { return Status::kSuccess; }
    if (arguments.workspace == nullptr || arguments.workspace_bytes < bytes_of(resident, cluster)) {
      params.shared_tiles = params.k_tiles_each = params.extra = 0;
      return Status::kSuccess;
    }
    params.ready = static_cast<uint64_t*>(arguments.workspace);
    params.partials =
        reinterpret_cast<float4*>(static_cast<unsigned char*>(arguments.workspace) + flag_bytes(resident, cluster));
    params.launch = detail::launch_number();
    return Status::kSuccess;
  }

  static unsigned grid(Params const& params, int resident) {
    return params.shared_tiles > 0 ? unsigned(resident) : cute::min(unsigned(resident), params.tiles);
  }

  /// Flags, then a CTA tile of sums for each CTA that runs at once; 0 where no tile would be shared.
  static int64_t workspace_bytes(GemmShape const& shape, int resident, ClusterShape cluster) {
    Params params{};
    detail::make_tiles_of_clusters<Config>(params, shape, cluster);
    share_last_wave(params, unsigned(resident));
    return params.shared_tiles > 0 ? bytes_of(resident, cluster) : 0;
  }

  ClusterCoord<Config> const& cluster;
  unsigned const index = cluster_index<Config>();
  unsigned begin, end;  // this cluster's range, among the k tiles of all shared tiles; what is left of it
  unsigned tile;        // the next whole tile

  CUTE_DEVICE StreamKTileScheduler(Params const& params, ClusterCoord<Config> const& cluster)
      : cluster(cluster),
        begin(range_begin(params, index)),
        end(range_begin(params, index + 1)),
        tile(params.shared_tiles + index) {}

  CUTE_DEVICE bool is_valid(Params const& params) const { return begin < end || tile < params.tiles; }

  CUTE_DEVICE void advance(Params const& params) {
    if (begin < end) {
      unsigned const last = params.divide_by_k_tiles.divide(end - 1);
      end = cute::max(begin, last * params.divide_by_k_tiles.divisor);
    } else {
      tile += cluster_count<Config>();
    }
  }

  CUTE_DEVICE WorkTileInfo work_tile(Params const& params) const {
    unsigned const k_tiles = params.divide_by_k_tiles.divisor;
    if (begin == end) { return {tile, 0, params.k_tiles}; }
    unsigned const last = params.divide_by_k_tiles.divide(end - 1);
    unsigned const from = cute::max(begin, last * k_tiles);
    return {last, int(from - last * k_tiles), int(end - from)};
  }

  /// Called by all consumer threads. The cluster that has the last k tile of an output tile adds the partial sums of the
  /// others and stores the tile; the others leave their sums in the workspace. Returns whether this CTA stores the tile.
  template <class Storage, class TensorRC>
  CUTE_DEVICE bool fixup(Params const& params, WorkTileInfo const& work, Storage&, TensorRC& tCrC) const {
    static_assert(sizeof(typename TensorRC::value_type) == 4, "partial sums are 32-bit words");
    if (work.k_begin + work.k_tiles < params.k_tiles) {
      write_partials(params, tCrC);
      return false;
    }
    if (work.k_begin > 0) { add_partials(params, work, tCrC); }
    return true;
  }
  CUTE_DEVICE static void fixup_producer() {}

 private:
  static constexpr int kThreads = cute::size(typename Config::TiledMma{});

  /// Shares the tiles of a last wave that is less than two thirds full, and those of the full wave before it. A fuller last
  /// wave is often faster if not shared: clusters at different k have no operands in common that L2 could serve to both.
  static void share_last_wave(Params& params, unsigned resident) {
    constexpr int64_t kMinKTiles = kAlways ? 4 : 8;  // of a cluster
    unsigned const rest = params.tiles % resident;
    unsigned const waves = params.tiles / resident;
    bool const worthwhile = rest > 0 && (kAlways || 3 * rest < 2 * resident);
    int64_t const shared_tiles = !worthwhile ? 0 : waves == 0 ? params.tiles : rest + resident;
    int64_t const total = shared_tiles * params.k_tiles;
    if (total < kMinKTiles * resident || total > 0x7fffffff) { return; }
    params.shared_tiles = unsigned(shared_tiles);
    params.k_tiles_each = unsigned(total / resident);
    params.extra = unsigned(total % resident);
  }

  static int64_t flag_bytes(int resident, ClusterShape cluster) {
    return detail::ceil_div(int64_t(resident) * cluster.ctas() * int64_t(sizeof(uint64_t)), 256) * 256;
  }
  static int64_t bytes_of(int resident, ClusterShape cluster) {
    return flag_bytes(resident, cluster) + int64_t(resident) * cluster.ctas() * Config::kTileM * Config::kTileN * 4;
  }

  CUTE_DEVICE static unsigned range_begin(Params const& params, unsigned index) {
    return index * params.k_tiles_each + cute::min(index, params.extra);
  }

  /// Barrier among the threads that have sums of the tile; the producer does not take part.
  CUTE_DEVICE static void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory"); }

  /// What a thread reads or writes in the workspace at once: four sums, in consecutive registers. But single sums if the
  /// mainloop multiplies sums by scales and adds them to the accumulators: ptxas then places the accumulators so that few
  /// FFMAs have all three operands in one register bank (block-scaled 128x256 became 9 % faster on an H200). With three
  /// warpgroups, vectors lead to fewer such FFMAs.
  template <class Mainloop>
  using AccessOf = std::conditional_t<(Mainloop::kScalesK && Config::kConsumers <= 2), float, float4>;

  /// The workspace of this CTA's peer in cluster `of`: what neighbouring threads access at once is adjacent.
  template <class Access>
  CUTE_DEVICE Access* partials(Params const& params, unsigned of) const {
    unsigned const cta = of * unsigned(cluster.shape().ctas()) + unsigned(cluster.rank);
    return reinterpret_cast<Access*>(params.partials + size_t(cta) * (Config::kTileM * Config::kTileN / 4)) + threadIdx.x;
  }

  template <class TensorRC>
  CUTE_DEVICE void write_partials(Params const& params, TensorRC const& tCrC) const {
    using Access = AccessOf<typename Config::Mainloop>;
    constexpr int kSums = int(sizeof(Access) / sizeof(typename TensorRC::value_type));
    auto* const slot = partials<Access>(params, index);
    auto const* const sums = reinterpret_cast<Access const*>(&tCrC(0));
    CUTE_UNROLL
    for (int i = 0; i < int(cute::size(tCrC)) / kSums; ++i) { __stcg(slot + i * kThreads, sums[i]); }
    __threadfence();
    sync_consumers();
    if (threadIdx.x == 0) {
      uint64_t* const ready = params.ready + index * cluster.shape().ctas() + cluster.rank;
      asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(ready), "l"(params.launch) : "memory");
    }
  }

  /// Adds the sums of all clusters that worked on the tile before, those of the first k tiles first. Resets their flags: a
  /// graph that is launched again has the same launch number.
  template <class TensorRC>
  CUTE_DEVICE void add_partials(Params const& params, WorkTileInfo const& work, TensorRC& tCrC) const {
    using Sum = typename TensorRC::value_type;
    using Access = AccessOf<typename Config::Mainloop>;
    constexpr int kSums = int(sizeof(Access) / sizeof(Sum));
    unsigned const tile_begin = work.tile * params.divide_by_k_tiles.divisor;
    unsigned from = index - 1;
    while (range_begin(params, from) > tile_begin) { --from; }
    for (; from < index; ++from) {
      if (threadIdx.x == 0) {
        uint64_t* const ready = params.ready + from * cluster.shape().ctas() + cluster.rank;
        uint64_t flag = 0;
        do {
          asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(flag) : "l"(ready) : "memory");
        } while (flag != params.launch);
        *ready = 0;
      }
      sync_consumers();
      auto const* const slot = partials<Access>(params, from);
      CUTE_UNROLL
      for (int i = 0; i < int(cute::size(tCrC)) / kSums; ++i) {
        Access const some = __ldcg(slot + i * kThreads);
        auto const* const others = reinterpret_cast<Sum const*>(&some);
        CUTE_UNROLL
        for (int v = 0; v < kSums; ++v) { tCrC(kSums * i + v) += others[v]; }
      }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
