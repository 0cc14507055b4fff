// SPDX-License-Identifier: MIT-0
// Calls an operation's `fma` with arrays of registers as its arguments, and wgmma between its fences.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace mmagen::atoms {

template <class Registers>
using Register = std::remove_extent_t<Registers>;
template <class Registers>
using Indices = std::make_index_sequence<std::extent_v<Registers>>;

/// Does the operation take metadata, does it take scale factors?
template <class Op, class = void>
inline constexpr bool is_sparse = false;
template <class Op>
inline constexpr bool is_sparse<Op, std::void_t<typename Op::ERegisters>> = true;
template <class Op, class = void>
inline constexpr bool is_block_scaled = false;
template <class Op>
inline constexpr bool is_block_scaled<Op, std::void_t<typename Op::SFARegisters>> = true;

enum Extra { kE, kSFA, kSFB };
template <Extra kExtra>
using ExtraTag = std::integral_constant<Extra, kExtra>;

/// run(extra...) with those of one register of metadata and two of scale factors that the operation takes, after
/// fill(register, tag) has filled each.
template <class Op, class Fill, class Run>
__device__ void with_extra(Fill const& fill, Run const& run) {
  if constexpr (is_block_scaled<Op>) {
    Register<typename Op::SFARegisters> sfa[1];
    Register<typename Op::SFBRegisters> sfb[1];
    fill(sfa, ExtraTag<kSFA>{});
    fill(sfb, ExtraTag<kSFB>{});
    if constexpr (is_sparse<Op>) {
      Register<typename Op::ERegisters> e[1];
      fill(e, ExtraTag<kE>{});
      run(e[0], sfa[0], sfb[0]);
    } else {
      run(sfa[0], sfb[0]);
    }
  } else if constexpr (is_sparse<Op>) {
    Register<typename Op::ERegisters> e[1];
    fill(e, ExtraTag<kE>{});
    run(e[0]);
  } else {
    run();
  }
}

// --- mma.sync and the operations of single threads: every operand in registers -------------------------------------------

template <class Op, class D, class A, class B, class C, std::size_t... kD, std::size_t... kA, std::size_t... kB,
          std::size_t... kC, class... Extra>
__device__ void call(D& d, std::index_sequence<kD...>, A const& a, std::index_sequence<kA...>, B const& b,
                     std::index_sequence<kB...>, C const& c, std::index_sequence<kC...>, Extra const&... extra) {
  Op::fma(d[kD]..., a[kA]..., b[kB]..., c[kC]..., extra...);
}

/// D = A * B + C in arrays of the operation's registers; extra: metadata and scale factors, where it takes any.
template <class Op, class D, class A, class B, class C, class... Extra>
__device__ void multiply_once(D& d, A const& a, B const& b, C const& c, Extra const&... extra) {
  call<Op>(d, Indices<D>{}, a, Indices<A>{}, b, Indices<B>{}, c, Indices<C>{}, extra...);
}

// --- wgmma: B, and A where it is not in registers, through descriptors of shared memory ------------------------------------

/// The descriptor of what lies at `address`: bits 0 to 13 are its 16-byte units.
__device__ inline uint64_t described(uint64_t descriptor, uint32_t address) { return descriptor | ((address & 0x3ffff) >> 4); }

/// Keeps the value in its register here: the compiler must not move accumulators while wgmma writes them, and what wgmma
/// reads must be complete before the fence.
template <class T>
__device__ void pin(T& value) {
  if constexpr (std::is_same_v<T, float>) {
    asm volatile("" : "+f"(value)::"memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(value)::"memory");
  } else {
    asm volatile("" : "+r"(value)::"memory");
  }
}

template <class Op, class A, class C, std::size_t... kA, std::size_t... kC, class... Extra>
__device__ void call_wgmma(A const& a, std::index_sequence<kA...>, uint64_t b, C& c, std::index_sequence<kC...>,
                           Extra const&... extra) {
  Op::fma(a[kA]..., b, c[kC]..., extra...);
}

/// C += A * B by one warpgroup, complete on return. What shared memory holds must be visible to the async proxy.
template <class Op, class A, class C, class... Extra>
__device__ void multiply_once_wgmma(A& a, uint64_t b, C& c, Extra const&... extra) {
#pragma unroll
  for (auto& value : a) { pin(value); }
  // Every index of `sums` is a constant, so that they are registers. A `c` in local memory would be written there right behind
  // the wgmma, before its registers may be read.
  constexpr int kSums = std::extent_v<C>;
  std::remove_extent_t<C> sums[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    sums[i] = c[i];
    pin(sums[i]);
  }
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  call_wgmma<Op>(a, Indices<A>{}, b, sums, Indices<C>{}, extra...);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    pin(sums[i]);
    c[i] = sums[i];
  }
}

}  // namespace mmagen::atoms
