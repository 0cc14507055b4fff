// SPDX-License-Identifier: MIT-0
// Copies between matrices in memory and the operands of one MMA instruction: registers by a thread-value layout, or 8 x
// 16-byte core matrices in shared memory.
#pragma once

#include <cute/layout.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mmagen {
inline namespace v0_1 {

/// An operand that lies in registers. Layout: (thread, value) -> row + rows * column of the logical (kRows, ...) matrix.
/// In memory it is (kRows, kColumns) with columns contiguous, elements of kBits without gaps. Each kGroup neighbours along
/// the columns of the logical matrix are kept as kKept elements: nonzeros of a sparse A (4 as 2), metadata (8 as 1 byte),
/// scale factors (32 as 1).
template <class Layout, int kRows, int kColumns_, int kBits_, int kGroup = 1, int kKept = 1>
struct Fragment {
  static constexpr int kBits = kBits_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kValues = cute::size<1>(Layout{}) / kGroup * kKept;

  /// The element in memory that is stored value `value` of `thread`, counted row by row.
  __device__ static int place(int thread, int value) {
    int const logical = Layout{}(thread, value / kKept * kGroup);
    int const row = logical % kRows;
    int const column = logical / kRows / kGroup * kKept + value % kKept;
    return row * kColumns + column;
  }
};

/// The unsigned integer that elements of kBits are moved as: several small ones share one, long ones take several.
template <int kBits>
using Unit = std::conditional_t<kBits <= 8, uint8_t,
                                std::conditional_t<kBits == 16, uint16_t, std::conditional_t<kBits == 32, uint32_t, uint64_t>>>;

/// Loads this thread's values of an operand into registers, the first value in the lowest bits; unused bits are zero.
template <class Operand, class Register, int kCount>
__device__ void load_fragment(Register (&registers)[kCount], void const* matrix) {
  using Moved = Unit<Operand::kBits>;
  constexpr int kUnits = (Operand::kBits + 63) / 64;                      // of one element
  constexpr int kShared = sizeof(Moved) * 8 / (Operand::kBits / kUnits);  // elements in a unit
  static_assert(Operand::kValues * Operand::kBits <= 8 * int(sizeof registers), "values fit the registers");
  auto const* const from = static_cast<Moved const*>(matrix);
  Moved units[sizeof registers / sizeof(Moved)] = {};
#pragma unroll
  for (int value = 0; value < Operand::kValues; ++value) {
    int const place = Operand::place(threadIdx.x, value);
    if constexpr (kShared > 1) {
      uint32_t const code = from[place / kShared] >> place % kShared * Operand::kBits & ((1u << Operand::kBits) - 1);
      units[value / kShared] |= static_cast<Moved>(code << value % kShared * Operand::kBits);
    } else {
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) { units[value * kUnits + unit] = from[place * kUnits + unit]; }
    }
  }
  memcpy(registers, units, sizeof registers);
}

/// Stores accumulators, of 16 bits and more, to a matrix.
template <class Operand, class Register, int kCount>
__device__ void store_fragment(Register const (&registers)[kCount], void* matrix) {
  using Moved = Unit<Operand::kBits>;
  constexpr int kUnits = (Operand::kBits + 63) / 64;
  static_assert(Operand::kBits >= 16, "no two threads write to one unit");
  auto* const to = static_cast<Moved*>(matrix);
  Moved units[sizeof registers / sizeof(Moved)];
  memcpy(units, registers, sizeof registers);
#pragma unroll
  for (int value = 0; value < Operand::kValues; ++value) {
    int const place = Operand::place(threadIdx.x, value);
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) { to[place * kUnits + unit] = units[value * kUnits + unit]; }
  }
}

/// An operand of wgmma in shared memory: (kRows, kRowBytes), K contiguous, as core matrices of 8 rows x 16 bytes without
/// swizzle (PTX ISA, "Asynchronous warpgroup level matrix shared memory layout").
template <int kRows_, int kRowBytes_>
struct CoreMatrices {
  static constexpr int kRows = kRows_;
  static constexpr int kRowBytes = kRowBytes_;
  static constexpr int kBytes = kRows * kRowBytes;
  /// From one core matrix to the next along K, and to the next 8 rows.
  static constexpr uint64_t kLeadingBytes = 128;
  static constexpr uint64_t kStrideBytes = 8 * kRowBytes;
  /// A matrix descriptor but for its address; offsets count 16 bytes.
  static constexpr uint64_t kDescriptor = kLeadingBytes / 16 << 16 | kStrideBytes / 16 << 32;
};

template <class T>
inline constexpr bool is_in_shared_memory = false;
template <int kRows, int kRowBytes>
inline constexpr bool is_in_shared_memory<CoreMatrices<kRows, kRowBytes>> = true;

/// All threads of the CTA together. matrix: (kRows, kRowBytes), 16-byte aligned.
template <class Operand>
__device__ void load_core_matrices(unsigned char* smem, void const* matrix) {
  constexpr int kChunks = Operand::kRowBytes / 16;
  auto const* const from = static_cast<uint4 const*>(matrix);
  for (int i = threadIdx.x; i < Operand::kRows * kChunks; i += blockDim.x) {
    int const row = i / kChunks;
    int const chunk = i % kChunks;
    int const place = row / 8 * Operand::kStrideBytes + chunk * Operand::kLeadingBytes + row % 8 * 16;
    *reinterpret_cast<uint4*>(smem + place) = from[i];
  }
}

}  // namespace v0_1
}  // namespace mmagen
