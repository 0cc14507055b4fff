// SPDX-License-Identifier: MIT-0
// What the sm_90 kernels have in common: parameters, shared memory, registers of warpgroups, the entry.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_pipeline.cuh"
#include "sm90_tma.cuh"
#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct Sm90Params {
  typename Config::Mainloop::Params mainloop;
  typename Config::Epilogue::Params epilogue;
  typename Config::TileScheduler::Params scheduler;
};

template <class Config>
struct Sm90SharedStorage {
  typename Config::Mainloop::SharedStorage mainloop;
  typename Config::Epilogue::SharedStorage epilogue;
  alignas(1024) typename Config::Mainloop::Pipeline pipeline;
  Barrier turn[Config::kConsumers];  // pingpong: whose turn it is to issue wgmma
  typename Config::Epilogue::SourceBarriers source;
};

/// The warp's index within the CTA, as a value that the compiler knows to be the same in all lanes.
CUTE_DEVICE int warp_index() { return __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0); }

/// Releases registers of a warpgroup, or takes more; 0: no change. The kernel's launch bounds must fix the number of
/// registers at launch, or ptxas ignores the request (C7508).
template <int kRegisters>
CUTE_DEVICE void warpgroup_reg_dealloc() {
  if constexpr (kRegisters > 0) { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters)); }
}
template <int kRegisters>
CUTE_DEVICE void warpgroup_reg_alloc() {
  if constexpr (kRegisters > 0) { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters)); }
}

/// Forces the tile's position to be computed here, while the last wgmmas run; the compiler would do it after the wait.
CUTE_DEVICE void materialize(TileCoord& tile) { asm volatile("" : "+r"(tile.m), "+r"(tile.n), "+r"(tile.batch)); }

/// Afterwards barriers and tensor maps are ready, in all CTAs of the cluster. `consumers`: warpgroups that read a stage.
template <class Config>
CUTE_DEVICE void prologue(Sm90Params<Config> const& params, Sm90SharedStorage<Config>& storage, int consumers) {
  if (threadIdx.x == 0) {
    Config::Mainloop::prefetch_descriptors(params.mainloop);
    Config::Epilogue::prefetch_descriptors(params.epilogue);
    storage.pipeline.init(consumers, cluster_shape<Config>(params.mainloop));
    for (Barrier& turn : storage.turn) { turn.init(1); }
    fence_barrier_init();
  }
  sync_cluster_of<Config>();
  launch_dependent_grids();
}

/// Grid: as many clusters as the tile scheduler says. Dynamic shared memory: Config::kSmemBytes.
template <class Config>
__global__ void __launch_bounds__(Config::kThreads, Config::kCtasPerSm)
    sm90_kernel(__grid_constant__ Sm90Params<Config> const params) {
  using SharedStorage = Sm90SharedStorage<Config>;
  static_assert(sizeof(SharedStorage) == Config::kSmemBytes, "the plan and the kernel disagree");
  static_assert(Config::Epilogue::kStoring * Config::Mainloop::kPartsOfK == Config::kConsumers,
                "all consumer warpgroups store, or those of the first of several parts of K");
  extern __shared__ __align__(1024) unsigned char smem[];
  Config::Kernel::run(params, *reinterpret_cast<SharedStorage*>(smem));
}

}  // namespace v0_1
}  // namespace mmagen
