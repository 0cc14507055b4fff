// SPDX-License-Identifier: MIT-0
// The peak loop of an instruction whose operands all lie in registers: mma.sync and the dot products of single threads.
#pragma once

#include <utility>

#include "loop.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace peak {

template <class Op, std::size_t... kA, std::size_t... kB, std::size_t... kC>
__device__ __forceinline__ void multiply(typename RegistersOf<Op>::C* c, typename RegistersOf<Op>::A const* a,
                                         typename RegistersOf<Op>::B const* b, std::index_sequence<kA...>,
                                         std::index_sequence<kB...>, std::index_sequence<kC...>) {
  Op::fma(c[kC]..., a[kA]..., b[kB]..., c[kC]...);
}

/// Every warp keeps `kAccumulators` accumulators and the slices of both operands in registers. Grid: any.
template <class Op, int kAccumulators, int kSteps>
__global__ void register_loop(LoopArguments const arguments) {
  using R = RegistersOf<Op>;
  typename R::A a[kSlices][R::kA];
  typename R::B b[kSlices][R::kB];
  typename R::C c[kAccumulators][R::kC];
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
#pragma unroll
    for (int i = 0; i < R::kA; ++i) { a[slice][i] = own_register<R::kA, typename R::A>(arguments.a, slice, i); }
#pragma unroll
    for (int i = 0; i < R::kB; ++i) { b[slice][i] = own_register<R::kB, typename R::B>(arguments.b, slice, i); }
  }
#pragma unroll
  for (int i = 0; i < kAccumulators; ++i) {
#pragma unroll
    for (int j = 0; j < R::kC; ++j) { c[i][j] = typename R::C{}; }
  }
  Stopwatch const watch;
  repeat(arguments.blocks, [&](auto back) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < kAccumulators; ++i) {
        int const slice = slice_of(step, kSteps, decltype(back)::value, i);
        multiply<Op>(c[i], a[slice], b[slice], std::make_index_sequence<R::kA>{}, std::make_index_sequence<R::kB>{},
                     std::make_index_sequence<R::kC>{});
      }
    }
  });
  watch.stop(arguments.clocks);
  uint32_t digest = 0;
#pragma unroll
  for (int i = 0; i < kAccumulators; ++i) {
#pragma unroll
    for (int j = 0; j < R::kC; ++j) { digest += digest_of(c[i][j], i * R::kC + j); }
  }
  arguments.digests[blockIdx.x * blockDim.x + threadIdx.x] = digest;
}

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
