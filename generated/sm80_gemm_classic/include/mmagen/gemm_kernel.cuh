// SPDX-License-Identifier: MIT-0
// The GEMM kernel for operands in registers (mma.sync and FMA): one CTA computes one CTA tile of D.
// A is (M,K), B is (N,K), C and D are (M,N).
#pragma once

#include <cute/tensor.hpp>

#include "tile_raster.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct GemmParams {
  typename Config::Mainloop::Params mainloop;
  typename Config::Epilogue::Params epilogue;
  typename Config::TileScheduler::Params scheduler;
};

/// Mainloop and epilogue use the same bytes one after the other.
template <class Config>
union GemmSharedStorage {
  typename Config::Mainloop::SharedStorage mainloop;
  typename Config::Epilogue::SharedStorage epilogue;
};

/// Grid: one CTA of Config::kThreads threads for each work tile. Dynamic shared memory: Config::kSmemBytes.
/// kWide: rows of A and B begin at 16-byte boundaries.
template <class Config, bool kWide>
__global__ void __launch_bounds__(Config::kThreads, Config::kCtasPerSm)
    gemm_kernel(__grid_constant__ GemmParams<Config> const params) {
  using namespace cute;
  static_assert(sizeof(GemmSharedStorage<Config>) == Config::kSmemBytes, "the plan and the kernel disagree");
  static_assert(size(typename Config::TiledMma{}) == Config::kThreads, "the plan and the TiledMMA disagree");
  extern __shared__ __align__(128) unsigned char smem[];
  auto& storage = *reinterpret_cast<GemmSharedStorage<Config>*>(smem);

  // Computed for the mainloop and again for the epilogue: if kept in registers in between, it may cause spills. The empty asm
  // keeps the compiler from reusing the first result.
  auto const tile = [&] {
    unsigned index = Config::TileScheduler::work_tile(params.scheduler).tile;
    asm volatile("" : "+r"(index));
    return params.scheduler.raster(index);
  };
  Tensor tCrC = partition_fragment_C(typename Config::TiledMma{},
                                     Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
  clear(tCrC);
  Config::Mainloop::template run<kWide>(params.mainloop, tile(), tCrC, storage.mainloop);
  Config::Epilogue::run(params.epilogue, tile(), tCrC, storage.epilogue);
}

}  // namespace v0_1
}  // namespace mmagen
