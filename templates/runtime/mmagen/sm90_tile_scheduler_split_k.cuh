// Split-K tile scheduler: kSplitK CTAs of a cluster share the K of one output tile. In the fixup they exchange partial sums
// through distributed shared memory.
//
// Each CTA keeps the slices that it will store, sends the others' slices to them and adds what it receives in the order of
// the parts of K: results do not depend on timing. The stages of A and B are free by then and hold the exchanged sums.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_cluster.cuh"
#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

/// One output tile for each cluster, its k tiles divided among kSplitK CTAs.
template <class Config, int kSplitK_>
struct SplitKTileScheduler {
  static constexpr int kSplitK = kSplitK_;
  static constexpr bool kReduces = false;
  static constexpr bool kSharesTiles = true;
  static constexpr bool kHasEmptyWork = true;  // there may be fewer k tiles than CTAs to share them

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

  static unsigned grid(Params const& params, int) { return params.tiles; }

  static int64_t workspace_bytes(GemmShape const&, int, ClusterShape) { return 0; }

  ClusterCoord<Config> const cluster;
  bool done = false;

  CUTE_DEVICE SplitKTileScheduler(Params const&, ClusterCoord<Config> const& cluster) : cluster(cluster) {}

  CUTE_DEVICE bool is_valid(Params const&) const { return !done; }

  CUTE_DEVICE void advance(Params const&) { done = true; }

  CUTE_DEVICE WorkTileInfo work_tile(Params const& params) const {
    int const begin = int(int64_t(params.k_tiles) * cluster.split / kSplitK);
    int const end = int(int64_t(params.k_tiles) * (cluster.split + 1) / kSplitK);
    return {blockIdx.x / kClusterCtas<Config>, begin, end - begin};
  }

  /// Adds up the partial sums of all CTAs of the tile; afterwards each CTA has the final sums of its own slices. Called by all
  /// consumer threads of all CTAs of the cluster once no stage is in use; the other threads call fixup_producer().
  /// Returns whether this CTA stores (its slices of) the tile.
  template <class Storage, class TensorRC>
  CUTE_DEVICE bool fixup(Params const&, WorkTileInfo const&, Storage& storage, TensorRC& tCrC) const {
    using namespace cute;
    using Sums = Exchange<Storage, TensorRC>;
    sync_cluster<kClusterCtas<Config>>();  // the other CTAs have read their stages
    for_each(make_int_sequence<kSplitK>{}, [&](auto part) {
      if (part != cluster.split) { Sums::send(storage, tCrC, cluster, part); }
    });
    sync_cluster<kClusterCtas<Config>>();
    for_each(make_int_sequence<kSplitK>{}, [&](auto part) {
      if (part == cluster.split) { Sums::add(storage, tCrC, part); }
    });
    return true;
  }

  /// Cluster barriers count all threads: the producer's part of fixup().
  CUTE_DEVICE static void fixup_producer() {
    sync_cluster<kClusterCtas<Config>>();
    sync_cluster<kClusterCtas<Config>>();
  }

 private:
  template <class Storage, class TensorRC>
  struct Exchange {
    using Sum = typename TensorRC::value_type;
    static constexpr int kThreads = cute::size(typename Config::TiledMma{});
    static constexpr int kPart = decltype(cute::size(TensorRC{}))::value / kSplitK;  // accumulators that a thread keeps
    static_assert(sizeof(Sum) == 4 && kPart % 4 == 0, "sums are exchanged as vectors of four 32-bit words");
    static_assert((kSplitK - 1) * kPart * 4 * kThreads <= sizeof(Storage), "the stages hold the sums of all other CTAs");

    /// The i-th accumulator in the order of the epilogue's slices, which follow one another along N first. In registers
    /// the atoms along M do.
    template <class Sums>
    CUTE_DEVICE static auto& sum_of_slices(Sums& tCrC, int i) {
      constexpr int kOfAtom = decltype(cute::size<0>(TensorRC{}))::value;
      constexpr int kAtomsN = decltype(cute::size<2>(TensorRC{}))::value;
      return tCrC(i % kOfAtom, i / kOfAtom / kAtomsN, i / kOfAtom % kAtomsN);
    }

    /// Byte offset at CTA `to` of the sums that CTA `from` sends: vectors of neighbouring threads are adjacent.
    CUTE_DEVICE static int slot(int from, int to, int vector) {
      int const sender = from < to ? from : from - 1;
      return ((sender * (kPart / 4) + vector) * kThreads + int(threadIdx.x)) * 16;
    }

    template <class Part>
    CUTE_DEVICE static void send(Storage& storage, TensorRC const& tCrC, ClusterCoord<Config> const& cluster, Part part) {
      uint32_t const base = smem_address(&storage);
      uint32_t const to = cluster.m + Config::kClusterM * (cluster.n + Config::kClusterN * int(part));
      CUTE_UNROLL
      for (int vector = 0; vector < kPart / 4; ++vector) {
        auto const word = [&](int i) {
          return reinterpret_cast<uint32_t const&>(sum_of_slices(tCrC, int(part) * kPart + vector * 4 + i));
        };
        asm volatile(
            "{\n"
            ".reg .b32 remote;\n"
            "mapa.shared::cluster.u32 remote, %0, %1;\n"
            "st.shared::cluster.v4.b32 [remote], {%2, %3, %4, %5};\n"
            "}" ::"r"(base + slot(cluster.split, part, vector)),
            "r"(to), "r"(word(0)), "r"(word(1)), "r"(word(2)), "r"(word(3))
            : "memory");
      }
    }

    template <class Part>
    CUTE_DEVICE static void add(Storage& storage, TensorRC& tCrC, Part part) {
      auto const* const bytes = reinterpret_cast<unsigned char const*>(&storage);
      CUTE_UNROLL
      for (int vector = 0; vector < kPart / 4; ++vector) {
        Sum total[4] = {};
        CUTE_UNROLL
        for (int from = 0; from < kSplitK; ++from) {
          struct alignas(16) Four {
            Sum sum[4];
          } other;
          if (from != int(part)) { other = *reinterpret_cast<Four const*>(bytes + slot(from, part, vector)); }
          CUTE_UNROLL
          for (int i = 0; i < 4; ++i) {
            total[i] += from == int(part) ? sum_of_slices(tCrC, int(part) * kPart + vector * 4 + i) : other.sum[i];
          }
        }
        CUTE_UNROLL
        for (int i = 0; i < 4; ++i) { sum_of_slices(tCrC, int(part) * kPart + vector * 4 + i) = total[i]; }
      }
    }
  };
};

}  // namespace v0_1
}  // namespace mmagen
