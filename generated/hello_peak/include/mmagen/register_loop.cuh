// SPDX-License-Identifier: MIT-0
// The peak loop of an instruction whose operands all lie in registers: mma.sync and the dot products of single threads.
#pragma once

#include <utility>

#include "loop.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace peak {

/// The metadata of a sparse A, a word of which an instruction takes.
template <class Op, class = void>
struct MetadataOf {
  static constexpr int kCount = 0;
  using Register = uint32_t;
};
template <class Op>
struct MetadataOf<Op, std::void_t<typename Op::ERegisters>> {
  static constexpr int kCount = std::extent_v<typename Op::ERegisters>;
  using Register = std::remove_extent_t<typename Op::ERegisters>;
};

/// The registers that scale factors of A and of B take.
template <class Op, class = void>
struct ScalesOf {
  static constexpr int kA = 0, kB = 0;
  using A = uint32_t;
  using B = uint32_t;
};
template <class Op>
struct ScalesOf<Op, std::void_t<typename Op::SFARegisters>> {
  static constexpr int kA = std::extent_v<typename Op::SFARegisters>, kB = std::extent_v<typename Op::SFBRegisters>;
  using A = std::remove_extent_t<typename Op::SFARegisters>;
  using B = std::remove_extent_t<typename Op::SFBRegisters>;
};

/// What an instruction takes besides A, B and C.
template <class Op>
struct Further {
  typename MetadataOf<Op>::Register e;
  typename ScalesOf<Op>::A sfa;
  typename ScalesOf<Op>::B sfb;
};

template <class Op, std::size_t... kA, std::size_t... kB, std::size_t... kC>
__device__ __forceinline__ void multiply(typename RegistersOf<Op>::C* c, typename RegistersOf<Op>::A const* a,
                                         typename RegistersOf<Op>::B const* b, Further<Op> const& further,
                                         std::index_sequence<kA...>, std::index_sequence<kB...>, std::index_sequence<kC...>) {
  constexpr bool kSparse = MetadataOf<Op>::kCount > 0, kScaled = ScalesOf<Op>::kA > 0;
  static_assert(MetadataOf<Op>::kCount <= 1 && ScalesOf<Op>::kA <= 1 && ScalesOf<Op>::kB <= 1, "one register each");
  if constexpr (kSparse && kScaled) {
    Op::fma(c[kC]..., a[kA]..., b[kB]..., c[kC]..., further.e, further.sfa, further.sfb);
  } else if constexpr (kScaled) {
    Op::fma(c[kC]..., a[kA]..., b[kB]..., c[kC]..., further.sfa, further.sfb);
  } else if constexpr (kSparse) {
    Op::fma(c[kC]..., a[kA]..., b[kB]..., c[kC]..., further.e);
  } else {
    Op::fma(c[kC]..., a[kA]..., b[kB]..., c[kC]...);
  }
}

/// Every warp keeps `kAccumulators` accumulators and the slices of both operands in registers. kScale: four scale factors of
/// a block-scaled instruction, all of them 1. Grid: any.
template <class Op, int kAccumulators, int kSteps, uint32_t kScale = 0>
__global__ void register_loop(LoopArguments const arguments) {
  using R = RegistersOf<Op>;
  typename R::A a[kSlices][R::kA];
  typename R::B b[kSlices][R::kB];
  typename R::C c[kAccumulators][R::kC];
  Further<Op> further{};
  if constexpr (MetadataOf<Op>::kCount > 0) { further.e = arguments.e[threadIdx.x]; }
  further.sfa = typename ScalesOf<Op>::A(kScale);
  further.sfb = typename ScalesOf<Op>::B(kScale);
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
        multiply<Op>(c[i], a[slice], b[slice], further, std::make_index_sequence<R::kA>{}, std::make_index_sequence<R::kB>{},
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
