// One MMA operation, executed and nothing else: registers and shared memory come as images that the caller laid out, the
// operation's own `fma` runs `steps` times over them, and the accumulators go back as they are.
//
// Neither TiledMMA nor layouts stand here. Who owns which element is what is being checked, so it is decided outside, by
// the registry's thread-value layouts; and a kernel this thin compiles in a fraction of the time of an MMA_Atom.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace mmagen::atoms {

/// What one launch works on. Image of registers: [step][thread][register]; of shared memory: all steps, as it will lie.
struct Work {
  void const* a;
  void const* b;
  void const* c;    ///< [thread][register]
  void const* e;    ///< metadata of a sparse operation
  void const* sfa;  ///< scale factors of a block-scaled one
  void const* sfb;
  void* d;                      ///< as c
  uint64_t desc_a, desc_b;      ///< wgmma: the descriptors but for their addresses
  uint32_t bytes_a, bytes_b;    ///< of the images of shared memory
  uint32_t step_a, step_b;      ///< bytes from one step's operand to the next one's
  int32_t steps;
};

using Kernel = void (*)(Work);

template <class Registers>
using Register = std::remove_extent_t<Registers>;
template <class Registers>
using Indices = std::make_index_sequence<std::extent_v<Registers>>;

template <class T, int kCount>
__device__ void load(T (&registers)[kCount], void const* image, int step)
{
  uint32_t const thread = step * blockDim.x + threadIdx.x;
  T const* const mine = static_cast<T const*>(image) + thread * kCount;
#pragma unroll
  for (int i = 0; i < kCount; ++i) { registers[i] = mine[i]; }
}

template <class T, int kCount>
__device__ void store(T const (&registers)[kCount], void* image)
{
  T* const mine = static_cast<T*>(image) + threadIdx.x * kCount;
#pragma unroll
  for (int i = 0; i < kCount; ++i) { mine[i] = registers[i]; }
}

// --- mma.sync and the operations of single threads: every operand in registers -------------------------------------------

template <class Op, class D, class A, class B, class C, std::size_t... kD, std::size_t... kA, std::size_t... kB,
          std::size_t... kC, class... Extra>
__device__ void call(D& d, std::index_sequence<kD...>, A const& a, std::index_sequence<kA...>, B const& b,
                     std::index_sequence<kB...>, C const& c, std::index_sequence<kC...>, Extra const&... extra)
{
  Op::fma(d[kD]..., a[kA]..., b[kB]..., c[kC]..., extra...);
}

/// D = A * B + C, then D = A' * B' + D for each further step.
template <class Op, bool kSparse, bool kScaled>
__device__ void multiply(Work const& work)
{
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
    auto const run = [&](auto const&... extra) {
      call<Op>(d, Indices<D>{}, a, Indices<A>{}, b, Indices<B>{}, c, Indices<C>{}, extra...);
    };
    if constexpr (kSparse && kScaled) {
      Register<typename Op::ERegisters> e[1];
      Register<typename Op::SFARegisters> sfa[1];
      Register<typename Op::SFBRegisters> sfb[1];
      load(e, work.e, step);
      load(sfa, work.sfa, step);
      load(sfb, work.sfb, step);
      run(e[0], sfa[0], sfb[0]);
    } else if constexpr (kSparse) {
      Register<typename Op::ERegisters> e[1];
      load(e, work.e, step);
      run(e[0]);
    } else if constexpr (kScaled) {
      Register<typename Op::SFARegisters> sfa[1];
      Register<typename Op::SFBRegisters> sfb[1];
      load(sfa, work.sfa, step);
      load(sfb, work.sfb, step);
      run(sfa[0], sfb[0]);
    } else {
      run();
    }
#pragma unroll
    for (int i = 0; i < static_cast<int>(std::extent_v<C>); ++i) { memcpy(&c[i], &d[i], sizeof c[i]); }
  }
  store(d, work.d);
}

// --- wgmma: B, and A where it is not in registers, through descriptors of shared memory ------------------------------------

__device__ inline void copy_to_shared(unsigned char* to, void const* from, uint32_t bytes)
{
  for (uint32_t i = 16 * threadIdx.x; i < bytes; i += 16 * blockDim.x) {
    *reinterpret_cast<uint4*>(to + i) = *reinterpret_cast<uint4 const*>(static_cast<unsigned char const*>(from) + i);
  }
}

/// The descriptor of what lies at `address`: bits 0 to 13 are its 16-byte units.
__device__ inline uint64_t described(uint64_t descriptor, uint32_t address)
{
  return descriptor | ((address & 0x3ffff) >> 4);
}

/// Accumulators keep their registers while the tensor cores write them behind the compiler's back.
template <class T>
__device__ void pin(T& value)
{
  if constexpr (std::is_same_v<T, float>) {
    asm volatile("" : "+f"(value)::"memory");
  } else {
    asm volatile("" : "+r"(value)::"memory");
  }
}

template <class Op, class A, class B, class C, std::size_t... kA, std::size_t... kC, class... Extra>
__device__ void call_wgmma(A const& a, std::index_sequence<kA...>, B const& b, C& c, std::index_sequence<kC...>,
                           Extra const&... extra)
{
  Op::fma(a[kA]..., b, c[kC]..., extra...);
}

/// C += A * B, `steps` times. Dynamic shared memory: both images, from 1024 bytes on.
template <class Op, bool kSparse, bool kAInRegisters>
__device__ void multiply_wgmma(Work const& work)
{
  extern __shared__ __align__(1024) unsigned char smem[];
  using A = typename Op::ARegisters;
  using C = typename Op::CRegisters;
  Register<A> a[std::extent_v<A>];
  Register<C> c[std::extent_v<C>];
  uint32_t const address_a = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  uint32_t const address_b = address_a + (work.bytes_a + 1023) / 1024 * 1024;
  copy_to_shared(smem, work.a, work.bytes_a);
  copy_to_shared(smem + (address_b - address_a), work.b, work.bytes_b);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads through another proxy than st.shared wrote
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
#pragma unroll
    for (auto& value : c) { pin(value); }
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    if constexpr (kSparse) {
      uint32_t e[1];
      load(e, work.e, step);
      call_wgmma<Op>(a, Indices<A>{}, b, c, Indices<C>{}, e[0]);
    } else {
      call_wgmma<Op>(a, Indices<A>{}, b, c, Indices<C>{});
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (auto& value : c) { pin(value); }
  }
  store(c, work.d);
}

// --- tcgen05: compiled, not run --------------------------------------------------------------------------------------------

/// Calls `fma` with words from memory, whatever its arguments are: enough for the instruction to be in the code.
template <class... Parameters, std::size_t... kIndex>
__device__ void call_with_words(void (*fma)(Parameters...), uint64_t const* words, std::index_sequence<kIndex...>)
{
  fma(static_cast<std::decay_t<Parameters>>(words[kIndex])...);
}

template <class... Parameters>
__device__ void compile_only(void (*fma)(Parameters...), Work const& work)
{
  call_with_words(fma, static_cast<uint64_t const*>(work.a), std::index_sequence_for<Parameters...>{});
}

}  // namespace mmagen::atoms
