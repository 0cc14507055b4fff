// SPDX-License-Identifier: MIT-0
// Ownership: every thread of a TiledMMA marks the elements of A, B and C that it owns.
#pragma once

#include <cute/tensor.hpp>

#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// An element gets 1 + its index in the thread's fragment; elements that the thread does not own stay 0.
template <class ThreadTensor>
CUTE_DEVICE void stamp(ThreadTensor&& owned) {
  CUTE_UNROLL
  for (int v = 0; v < cute::size(owned); ++v) { owned(v) = v + 1; }
}

}  // namespace detail

/// Grid: 1 CTA of all threads of the TiledMMA. a, b, c: (threads, rows, columns) each, zero before the launch.
template <class Config>
__global__ void ownership_kernel(int* a, int* b, int* c) {
  using namespace cute;
  static_assert(size(typename Config::TiledMma{}) == Config::kThreads, "the plan and the TiledMMA disagree");
  typename Config::TiledMma mma;
  auto thread_mma = mma.get_slice(threadIdx.x);
  // Each thread's own copy of the matrix, element (r,c) at r * columns + c: several threads may own one element.
  auto plane = [](int* stamps, auto rows, auto columns) {
    return make_tensor(make_gmem_ptr(stamps + threadIdx.x * size(rows) * size(columns)),
                       make_layout(make_shape(rows, columns), LayoutRight{}));
  };
  detail::stamp(thread_mma.partition_A(plane(a, Int<Config::kTileM>{}, Int<Config::kTileK>{})));  // (MMA,MMA_M,MMA_K)
  detail::stamp(thread_mma.partition_B(plane(b, Int<Config::kTileN>{}, Int<Config::kTileK>{})));  // (MMA,MMA_N,MMA_K)
  detail::stamp(thread_mma.partition_C(plane(c, Int<Config::kTileM>{}, Int<Config::kTileN>{})));  // (MMA,MMA_M,MMA_N)
}

/// Stamps on the device; a, b, c are device memory of (threads, rows, columns) ints, zeroed by the caller.
template <class Config>
Status run_ownership(int* a, int* b, int* c, cudaStream_t stream) {
  return launch_kernel(&ownership_kernel<Config>, 1, Config::kThreads, 0, stream, Launch::kYes, a, b, c);
}

}  // namespace v0_1
}  // namespace mmagen
