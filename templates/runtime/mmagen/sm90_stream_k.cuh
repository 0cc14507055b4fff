// Stream K: how the clusters that share a tile add up their sums, through global memory and always in the same order.
//
// A cluster gives away the sums of at most one tile: of the one that its range ends in. The cluster with the tile's last
// k tile waits for those before it, which were launched earlier and wait for nobody: it cannot wait for ever.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_params.cuh"

namespace mmagen {
inline namespace v0_1 {

/// All threads that multiply wait for each other; the producer does not take part.
template <class Config>
CUTE_DEVICE void sync_consumers() {
  asm volatile("bar.sync 1, %0;" ::"n"(128 * Config::kConsumers) : "memory");
}

/// Where a CTA's partial sums lie: neighbouring threads next to each other, four sums at a time.
template <class Config>
CUTE_DEVICE float4* partial_slot(Sm90Params<Config> const& params, unsigned cluster, ClusterPlace<Config> const& place) {
  unsigned const cta = cluster * kClusterCtas<Config> + unsigned(place.rank);
  return params.streamed.partials + size_t(cta) * (Config::kTileM * Config::kTileN / 4) + threadIdx.x;
}

/// Leaves this CTA's sums to the cluster that stores the tile.
template <class Config, class TensorRC>
CUTE_DEVICE void give_partial(Sm90Params<Config> const& params, TensorRC const& tCrC, unsigned cluster,
                              ClusterPlace<Config> const& place) {
  static_assert(sizeof(typename Config::ElementAccumulator) == 4, "sums travel as 32-bit words");
  float4* const slot = partial_slot<Config>(params, cluster, place);
  auto const* const sums = reinterpret_cast<float4 const*>(&tCrC(0));
  CUTE_UNROLL
  for (int i = 0; i < size(tCrC) / 4; ++i) { __stcg(slot + i * 128 * Config::kConsumers, sums[i]); }
  __threadfence();
  sync_consumers<Config>();
  if (threadIdx.x == 0) {
    unsigned* const arrived = params.streamed.arrived + cluster * kClusterCtas<Config> + place.rank;
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(arrived), "r"(1) : "memory");
  }
}

/// Adds the sums of all clusters that worked on the tile before, the first k tiles' first. Leaves their flags at zero
/// for the next launch.
template <class Config, class TensorRC>
CUTE_DEVICE void add_partials(Sm90Params<Config> const& params, TensorRC& tCrC, unsigned cluster, Piece const& piece,
                              ClusterPlace<Config> const& place) {
  using Sum = typename Config::ElementAccumulator;
  unsigned const tile_begin = piece.linear * params.streamed.k_tiles.value;
  unsigned from = cluster - 1;
  while (Walk<Config>::range_begin(params, from) > tile_begin) { --from; }
  for (; from < cluster; ++from) {
    if (threadIdx.x == 0) {
      unsigned* const arrived = params.streamed.arrived + from * kClusterCtas<Config> + place.rank;
      unsigned is_there = 0;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(is_there) : "l"(arrived) : "memory");
      } while (is_there == 0);
      *arrived = 0;
    }
    sync_consumers<Config>();
    float4 const* const slot = partial_slot<Config>(params, from, place);
    CUTE_UNROLL
    for (int i = 0; i < size(tCrC) / 4; ++i) {
      float4 const four = __ldcg(slot + i * 128 * Config::kConsumers);
      auto const* const others = reinterpret_cast<Sum const*>(&four);
      CUTE_UNROLL
      for (int v = 0; v < 4; ++v) { tCrC(4 * i + v) += others[v]; }
    }
  }
}

}  // namespace v0_1
}  // namespace mmagen
