// SPDX-License-Identifier: MIT-0
// Shared by all peak loops: arguments, order of steps, clocks, digests of accumulators.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mmagen {
inline namespace v0_1 {
namespace peak {

struct LoopArguments {
  uint32_t blocks;    ///< blocks of multiplies to run, at least 1
  uint32_t alone;     ///< of wgmma, not 0: a block is one instruction, whose end is waited for before the next one
  uint32_t const* a;  ///< the slices of A: registers of each thread, or tiles of shared memory
  uint32_t const* b;
  uint32_t const* e;           ///< metadata of a sparse A, one word for each thread
  uint32_t* digests;           ///< one for each thread of the grid
  unsigned long long* clocks;  ///< cycles and nanoseconds of the first CTA's loop are added here
};

/// A block of 4 steps adds (+0 +1 -0 +0), one of 8 (+0 +1 -0 -1 +0 +1 -0 +0), in products of slices 0 and 1 of the
/// operands: slice 2 is slice 0 with one operand negated, slice 3 is slice 1. The next block takes 2 for 0 and so on, and
/// returns the sum to zero: sums stay small however long the loop runs, and a step that is left out or wrong in any block
/// stays visible to the end.
inline constexpr int kSlices = 4;

/// Operands of wgmma lie in tiles of shared memory whose rows are as long as the swizzle is; A has this many rows.
inline constexpr int kTileRowBytes = 128, kTileRowsA = 64;

__host__ __device__ constexpr int slice_of(int step, int steps, bool back, int accumulator) {
  // Neighbouring accumulators begin with different slices: no two instructions in a row have the same operands.
  return (step == steps - 1 ? 0 : step % kSlices) ^ (back ? 2 : 0) ^ (accumulator % 2);
}

template <class Op>
struct RegistersOf {
  using A = std::remove_extent_t<typename Op::ARegisters>;
  using B = std::remove_extent_t<typename Op::BRegisters>;
  using C = std::remove_extent_t<typename Op::CRegisters>;
  static constexpr int kA = std::extent<typename Op::ARegisters>::value;
  static constexpr int kB = std::extent<typename Op::BRegisters>::value;
  static constexpr int kC = std::extent<typename Op::CRegisters>::value;
};

/// Register `i` of this thread's `kCount` ones of a slice.
template <int kCount, class Register>
__device__ __forceinline__ Register own_register(uint32_t const* words, int slice, int i) {
  return reinterpret_cast<Register const*>(words)[(slice * blockDim.x + threadIdx.x) * kCount + i];
}

/// Runs `block` alternately with std::false_type and std::true_type.
template <class Block>
__device__ __forceinline__ void repeat(uint32_t left, Block const& block) {
  for (;;) {
    block(std::false_type{});
    if (--left == 0) { break; }
    block(std::true_type{});
    if (--left == 0) { break; }
  }
}

/// A digest of an accumulator, linear in integers, that detects wrong elements.
template <class Accumulator>
__device__ __forceinline__ uint32_t digest_of(Accumulator const& accumulator, uint32_t place) {
  constexpr uint32_t kWords = sizeof(Accumulator) / 4;
  uint32_t words[kWords];
  memcpy(words, &accumulator, sizeof(Accumulator));
  uint32_t digest = 0;
#pragma unroll
  for (uint32_t i = 0; i < kWords; ++i) { digest += words[i] * (2 * (place * kWords + i) + 1); }
  return digest;
}

/// Cycles of the SM and nanoseconds between two points that all threads of a CTA have reached.
class Stopwatch {
 public:
  __device__ Stopwatch() {
    __syncthreads();
    cycles_ = clock64();
    ns_ = now_ns();
  }
  __device__ void stop(unsigned long long* clocks) const {
    __syncthreads();
    if (blockIdx.x != 0 || threadIdx.x != 0) { return; }
    clocks[0] += clock64() - cycles_;
    clocks[1] += now_ns() - ns_;
  }

 private:
  __device__ static unsigned long long now_ns() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
  }
  long long cycles_;
  unsigned long long ns_;
};

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
