// One MMA operation and nothing else: the caller provides images of registers and shared memory, the operation's `fma` runs
// `steps` times on them, and the accumulators are stored as they are.
//
// There is no TiledMMA and no layout here. Which thread owns which element is what is tested: the host decides it by the
// thread-value layouts of the catalogue. Such a kernel compiles in a fraction of the time of an MMA_Atom.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "atom_call.cuh"

namespace mmagen::atoms {

/// Arguments of one launch. Image of registers: [step][thread][register]; of shared memory: its bytes, for all steps.
struct Work {
  void const* a;
  void const* b;
  void const* c;    ///< [thread][register]
  void const* e;    ///< metadata of a sparse operation
  void const* sfa;  ///< scale factors of a block-scaled one
  void const* sfb;
  void* d;                    ///< as c
  uint64_t desc_a, desc_b;    ///< wgmma: the descriptors but for their addresses
  uint32_t bytes_a, bytes_b;  ///< of the images of shared memory
  uint32_t step_a, step_b;    ///< bytes from one step's operand to the next one's
  int32_t steps;
};

using Kernel = void (*)(Work);

template <class T, int kCount>
__device__ void load(T (&registers)[kCount], void const* image, int step) {
  uint32_t const thread = step * blockDim.x + threadIdx.x;
  T const* const mine = static_cast<T const*>(image) + thread * kCount;
#pragma unroll
  for (int i = 0; i < kCount; ++i) { registers[i] = mine[i]; }
}

template <class T, int kCount>
__device__ void store(T const (&registers)[kCount], void* image) {
  T* const mine = static_cast<T*>(image) + threadIdx.x * kCount;
#pragma unroll
  for (int i = 0; i < kCount; ++i) { mine[i] = registers[i]; }
}

/// Fills metadata and scale factors of one step, see with_extra.
__device__ inline auto extra_loader(Work const& work, int step) {
  return [&work, step](auto& registers, auto which) {
    void const* const images[] = {work.e, work.sfa, work.sfb};
    load(registers, images[which], step);
  };
}

// --- mma.sync and the operations of single threads: every operand in registers -------------------------------------------

/// D = A * B + C, then D = A' * B' + D for each further step.
template <class Op>
__device__ void multiply(Work const& work) {
  using A = typename Op::ARegisters;
  using B = typename Op::BRegisters;
  using C = typename Op::CRegisters;
  using D = typename Op::DRegisters;
  static_assert(sizeof(C) == sizeof(D), "D of one step is C of the next");
  Register<A> a[std::extent_v<A>];
  Register<B> b[std::extent_v<B>];
  Register<C> c[std::extent_v<C>];
  Register<D> d[std::extent_v<D>];
  load(c, work.c, 0);
#pragma unroll 1
  for (int step = 0; step < work.steps; ++step) {
    load(a, work.a, step);
    load(b, work.b, step);
    with_extra<Op>(extra_loader(work, step), [&](auto const&... extra) { multiply_once<Op>(d, a, b, c, extra...); });
#pragma unroll
    for (int i = 0; i < static_cast<int>(std::extent_v<C>); ++i) { memcpy(&c[i], &d[i], sizeof c[i]); }
  }
  store(d, work.d);
}

// --- wgmma: B, and A where it is not in registers, through descriptors of shared memory ------------------------------------

__device__ inline void copy_to_shared(unsigned char* to, void const* from, uint32_t bytes) {
  for (uint32_t i = 16 * threadIdx.x; i < bytes; i += 16 * blockDim.x) {
    *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<uint4 const*>(static_cast<unsigned char const*>(from) + i);
  }
}

/// C += A * B, `steps` times. Dynamic shared memory: both images, from 1024 bytes on.
template <class Op, bool kAInRegisters>
__device__ void multiply_wgmma(Work const& work) {
  extern __shared__ __align__(1024) unsigned char smem[];
  using A = typename Op::ARegisters;
  using C = typename Op::CRegisters;
  Register<A> a[std::extent_v<A>];
  Register<C> c[std::extent_v<C>];
  uint32_t const address_a = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  uint32_t const address_b = address_a + (work.bytes_a + 1023) / 1024 * 1024;
  copy_to_shared(smem, work.a, work.bytes_a);
  copy_to_shared(smem + (address_b - address_a), work.b, work.bytes_b);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads shared memory through the async proxy
  __syncthreads();
  load(c, work.c, 0);
#pragma unroll 1
  for (int step = 0; step < work.steps; ++step) {
    if constexpr (kAInRegisters) {
      load(a, work.a, step);
    } else {
      a[0] = described(work.desc_a, address_a + step * work.step_a);
    }
    uint64_t const b = described(work.desc_b, address_b + step * work.step_b);
    with_extra<Op>(extra_loader(work, step), [&](auto const&... extra) { multiply_once_wgmma<Op>(a, b, c, extra...); });
  }
  store(c, work.d);
}

// --- tcgen05: compiled, not run --------------------------------------------------------------------------------------------

/// Calls `fma` with words from memory, whatever its arguments are: enough for the instruction to be in the code.
template <class... Parameters, std::size_t... kIndex>
__device__ void call_with_words(void (*fma)(Parameters...), uint64_t const* words, std::index_sequence<kIndex...>) {
  fma(static_cast<std::decay_t<Parameters>>(words[kIndex])...);
}

template <class... Parameters>
__device__ void compile_only(void (*fma)(Parameters...), Work const& work) {
  call_with_words(fma, static_cast<uint64_t const*>(work.a), std::index_sequence_for<Parameters...>{});
}

}  // namespace mmagen::atoms
