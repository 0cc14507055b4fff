// SPDX-License-Identifier: MIT-0
// The pipeline between the TMA producer and the consumer warpgroups: a ring of stages, each guarded by two mbarriers.
#pragma once

#include "sm90_cluster.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

template <int kStages>
struct StageCount {
  CUTE_DEVICE static constexpr int stages() { return kStages; }
};

template <>
struct StageCount<0> {
  int count;

  CUTE_DEVICE int stages() const { return count; }
};

}  // namespace detail

/// A position in the ring of stages, and the parity of the phase that its barriers are in. kStages = 0: the launch decides how
/// many there are.
template <int kStages>
struct PipelineState : detail::StageCount<kStages> {
  int stage = 0;
  uint32_t phase = 0;

  CUTE_DEVICE void operator++() {
    if (++stage == this->stages()) {
      stage = 0;
      phase ^= 1;
    }
  }

  /// Skips `count` stages, which another warpgroup consumes.
  CUTE_DEVICE void advance(int count) {
    unsigned const to = unsigned(stage) + unsigned(count);
    unsigned const all = this->stages();
    phase ^= (to / all) & 1;
    stage = int(to % all);
  }
};

/// The first stage of this launch's ring. params: of the mainloop.
template <class Config, class Params>
CUTE_DEVICE auto first_stage([[maybe_unused]] Params const& params) {
  if constexpr (Config::kTileNAtLaunch) {
    return PipelineState<0>{{params.stages}};
  } else {
    return PipelineState<Config::kStages>{};
  }
}

/// full[i]: TMA has written stage i. empty[i]: all consumers of all CTAs that stage i is multicast to have read it.
template <class Config>
struct Sm90Pipeline {
  Barrier full[Config::kStages];
  Barrier empty[Config::kStages];

  /// `consumers`: warpgroups of one CTA that read a stage. `arrivals`: of threads of this CTA that fill one. Called by one
  /// thread; fence_barrier_init() must follow.
  CUTE_DEVICE void init(int consumers, ClusterShape cluster, int arrivals = 1) {
    for (int stage = 0; stage < Config::kStages; ++stage) {
      full[stage].init(arrivals);
      empty[stage].init(consumers * (cluster.m + cluster.n - 1));
    }
  }

  /// Tells every CTA that loads for this one that a warpgroup has read a stage: thread i of the warpgroup tells CTA i.
  CUTE_DEVICE void release(int stage, ClusterCoord<Config> const& cluster) {
    int const thread = threadIdx.x % 128;
    if (cluster.shape().ctas() == 1) {
      if (thread == 0) { empty[stage].arrive(); }
    } else {
      if (thread < ClusterCoord<Config>::kMostCtas && cluster.reads_from(thread)) { empty[stage].arrive_at(thread); }
    }
  }

  /// As release(), for a warpgroup that has not read the stage. Called by its first warp alone.
  CUTE_DEVICE void release_unread(int stage, ClusterCoord<Config> const& cluster) { release(stage, cluster); }
};

}  // namespace v0_1
}  // namespace mmagen
