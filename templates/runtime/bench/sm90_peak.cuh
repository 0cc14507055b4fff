// How fast a project's wgmma runs when its operands never leave shared memory: its TiledMMA on one stage, over and over.
#pragma once

#include <cuda_runtime.h>

#include <cute/tensor.hpp>

#include "mmagen/sm90_multiply.cuh"
#include "mmagen/status.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace peak {

template <class Config>
inline constexpr int kPeakThreads = decltype(cute::size(typename Config::TiledMma{}))::value;

/// Small values with busy mantissas that differ between elements; zeros would draw less power and clock higher.
template <class Operand>
CUTE_DEVICE void fill_stage(typename Operand::Element* stage, int threads) {
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

/// Grid: one CTA for each multiprocessor. Dynamic shared memory: Config::kSmemBytes. `sink` keeps the results alive and
/// is never written to, since no thread has the number `never`.
template <class Config>
__global__ void __launch_bounds__(kPeakThreads<Config>) wgmma_loop_kernel(int iterations, int never, float* sink) {
  using namespace cute;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& storage = *reinterpret_cast<Sm90Storage<Config>*>(smem);
  fill_stage<typename Config::A>(storage.a.begin(), kPeakThreads<Config>);
  fill_stage<typename Config::B>(storage.b.begin(), kPeakThreads<Config>);
  fence_for_async_proxy();
  __syncthreads();

  typename Config::TiledMma mma;
  auto const thread_mma = mma.get_slice(threadIdx.x);
  Tensor sA = stages_of<typename Config::A>(storage.a.begin());                                // (BLK_M,BLK_K,PIPE)
  Tensor sB = stages_of<typename Config::B>(storage.b.begin());                                // (BLK_N,BLK_K,PIPE)
  auto tCrA = OperandA<Config>::fragments(sA, thread_mma);                                     // (MMA,MMA_M,MMA_K[,PIPE])
  Tensor tCrB = thread_mma.make_fragment_B(thread_mma.partition_B(sB));                        // (MMA,MMA_N,MMA_K,PIPE)
  Tensor tCrC = partition_fragment_C(mma, Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
  clear(tCrC);
  CUTE_NO_UNROLL
  for (int i = 0; i < iterations; ++i) {
    multiply_stage<Config>(mma, sA, tCrA, tCrB, tCrC, 0, threadIdx.x);
    warpgroup_wait<Config::A::kInRegisters ? 0 : 1>();
  }
  warpgroup_wait<0>();
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
