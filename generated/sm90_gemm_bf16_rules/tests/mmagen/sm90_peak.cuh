// SPDX-License-Identifier: MIT-0
// The peak rate of a project's wgmma: its TiledMMA on one stage of shared memory, repeatedly, without any loads.
#pragma once

#include <cuda_runtime.h>

#include <cute/tensor.hpp>

#include "mmagen/sm90_stage_mma.cuh"
#include "mmagen/sm90_tma.cuh"
#include "mmagen/status.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace peak {

template <class Config>
inline constexpr int kPeakThreads = decltype(cute::size(typename Config::TiledMma{}))::value;

/// Small values with random mantissas; zeros would take less power and so run at a higher clock.
template <class Operand>
CUTE_DEVICE void write_operand(typename Operand::Element* stage, int threads) {
  using Element = typename Operand::Element;
  for (int i = threadIdx.x; i < Operand::kTileMn * Operand::kTileK; i += threads) {
    unsigned const hash = (unsigned(i) * 2654435761u) >> 8;
    if constexpr (cute::is_same_v<Element, int8_t> || cute::is_same_v<Element, uint8_t>) {
      stage[i] = static_cast<Element>(hash);
    } else {
      stage[i] = static_cast<Element>(float(hash % 2001u) * 0.001f - 1.0f);
    }
  }
}

/// Metadata of a sparse A, where there are any: the first elements of each group are kept.
template <class Storage>
CUTE_DEVICE auto write_metadata(Storage& storage, int threads, int) -> decltype(void(storage.metadata)) {
  for (int i = threadIdx.x; i < int(sizeof storage.metadata / sizeof storage.metadata[0]); i += threads) {
    storage.metadata[i] = 0x44444444;
  }
}
template <class Storage>
CUTE_DEVICE void write_metadata(Storage&, int, long) {}

/// Issues the wgmmas of the first stage `iterations` times, one batch in flight.
template <class Mainloop, class StageMma, class TensorRC>
CUTE_DEVICE void repeat(StageMma& stage_mma, TensorRC& tCrC, int iterations, long) {
  CUTE_NO_UNROLL
  for (int i = 0; i < iterations; ++i) {
    stage_mma(tCrC, 0);
    cute::warpgroup_wait<Mainloop::kBatchesInFlight>();
  }
  cute::warpgroup_wait<0>();
}
/// The same with metadata, which stay in their registers.
template <class Mainloop, class StageMma, class TensorRC>
CUTE_DEVICE auto repeat(StageMma& stage_mma, TensorRC& tCrC, int iterations, int) -> decltype(void(stage_mma.metadata)) {
  typename StageMma::Words words;
  stage_mma.load(words, 0);
  CUTE_NO_UNROLL
  for (int i = 0; i < iterations; ++i) {
    stage_mma.issue(tCrC, 0, words);
    cute::warpgroup_wait<Mainloop::kBatchesInFlight>();
  }
  cute::warpgroup_wait<0>();
  stage_mma.keep(words);
}

/// Grid: one CTA for each multiprocessor. Dynamic shared memory: Config::kSmemBytes. `sink` keeps the compiler from removing
/// the loop; it is never written to, since no thread has the index `never`.
template <class Config>
__global__ void __launch_bounds__(kPeakThreads<Config>) wgmma_loop_kernel(int iterations, int never, float* sink) {
  using namespace cute;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& storage = *reinterpret_cast<typename Config::Mainloop::SharedStorage*>(smem);
  write_operand<typename Config::A>(storage.stage_a(0), kPeakThreads<Config>);
  write_operand<typename Config::B>(storage.stage_b(whole_tiles<Config>(), 0), kPeakThreads<Config>);
  write_metadata(storage, kPeakThreads<Config>, 0);
  fence_view_async_shared();
  __syncthreads();

  auto stage_mma = Config::Mainloop::stage(storage, threadIdx.x);
  Tensor tCrC = partition_fragment_C(stage_mma.mma, Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
  clear(tCrC);
  repeat<typename Config::Mainloop>(stage_mma, tCrC, iterations, 0);
  warpgroup_fence_operand(tCrC);
  if (int(threadIdx.x) == never) {
    for (int i = 0; i < size(tCrC); ++i) { sink[i] = static_cast<float>(tCrC(i)); }
  }
}

/// Enqueues the loop on every multiprocessor; returns the status codes of the project's C interface.
template <class Config>
int launch(int iterations, double* flop, cudaStream_t stream) {
  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) { error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device); }
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(wgmma_loop_kernel<Config>, cudaFuncAttributeMaxDynamicSharedMemorySize, Config::kSmemBytes);
  }
  if (error != cudaSuccess) { return int(status_of(error)); }
  wgmma_loop_kernel<Config><<<multiprocessors, kPeakThreads<Config>, Config::kSmemBytes, stream>>>(iterations, -1, nullptr);
  *flop = 2.0 * Config::kTileM * Config::kTileN * Config::kTileK * double(multiprocessors) * iterations;
  return int(status_of(cudaPeekAtLastError()));
}

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
