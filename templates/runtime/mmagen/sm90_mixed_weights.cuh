// Weights of few bits in shared memory as fragments of wgmma's A.
//
// A fragment has pairs of neighbouring columns, four threads to a row, so that a thread would have to pick single bytes out of
// a row of weights. Instead each of the four takes a quarter of a chunk (kChunk columns), loaded as vectors without bank
// conflicts, and the activations are put into the order that this makes (sm90_mixed_activations.cuh). Column 2 * q + e of group
// 4 * w + i of eight columns of a chunk is column q * kChunk / 4 + 8 * w + i + 4 * e of the matrices, q the thread of four, i 0
// .. 3, e 0 and 1.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_scales.cuh"
#include "weight_conversion.cuh"

namespace mmagen {
inline namespace v0_1 {

/// The weights of a chunk and a thread's rows, as they lie in memory.
template <class Config>
struct WeightQuarters {
  using A = typename Config::A;
  using Weights = typename Config::Weights;
  using Lines = AccumulatorLines<Config>;
  using Conversion = WeightConversion<Weights::kType, typename Config::B::Element>;
  static constexpr int kRuns = Weights::kChunk / 32;  // of 8 elements in a thread's quarter of a chunk
  static constexpr int kQuarterBytes = kRuns * Conversion::kBits;
  static constexpr int kCountM = Lines::kCountM;
  static_assert(A::kLine % (4 * kQuarterBytes) == 0 && A::kLine == A::kSwizzleBytes, "a chunk lies in one line");

  /// Where a thread's quarters of rows begin in the tile of A, (bytes): those of atom 0, row 0 of two; TMA's swizzle is a
  /// function of the row within 8, which all rows of a thread have in common.
  struct Rows {
    int first;

    CUTE_DEVICE explicit Rows(int thread) {
      Lines const lines(thread);
      int const row = (lines.row(0) + lines.row_of_lane) * A::kLine;
      constexpr int kSwizzled = A::kSwizzleBytes - 16;  // bits of an address, from 4 on
      first = row + ((lines.column_of_lane / 2 * kQuarterBytes) ^ ((row >> 3) & kSwizzled));
    }

    /// Of row `row` (0 or 1: 8 further) of atom `m`, with the vector that begins at byte `byte` of the quarter, of a chunk.
    CUTE_DEVICE int at(int m, int row, int chunk, int byte) const {
      constexpr int kOfLine = A::kLine / (4 * kQuarterBytes);  // chunks
      int const panel = chunk / kOfLine * A::kTileMn * A::kLine;
      int const rows = m * Lines::kMmaM * Lines::kWarpgroupsM + row * 8;
      return panel + rows * A::kLine + (first ^ (chunk % kOfLine * 4 * kQuarterBytes + byte));
    }
  };

  alignas(16) uint32_t words[kCountM][2][kQuarterBytes / 4];  // (atom, row)

  /// Loads those of chunk `chunk` of a stage.
  CUTE_DEVICE void load(uint8_t const* stage, Rows const& rows, int chunk) {
    constexpr int kVector = kQuarterBytes < 16 ? kQuarterBytes : 16;
    using Vector = std::conditional_t<kVector == 16, uint4, std::conditional_t<kVector == 8, uint2, uint32_t>>;
    CUTE_UNROLL
    for (int m = 0; m < kCountM; ++m) {
      CUTE_UNROLL
      for (int row = 0; row < 2; ++row) {
        CUTE_UNROLL
        for (int byte = 0; byte < kQuarterBytes; byte += kVector) {
          *reinterpret_cast<Vector*>(words[m][row] + byte / 4) =
              *reinterpret_cast<Vector const*>(stage + rows.at(m, row, chunk, byte));
        }
      }
    }
  }

  /// Converts them to fragments of A. zeros: their zero points, (atom, row).
  template <class TensorRA>
  CUTE_DEVICE void convert(TensorRA& tCrA, uint32_t const (&zeros)[kCountM][2]) const {
    using namespace cute;
    Tensor pairs = recast<uint32_t>(tCrA);  // (4,MMA_M,MMA_K): rows, then halves of 16 columns
    CUTE_UNROLL
    for (int m = 0; m < kCountM; ++m) {
      CUTE_UNROLL
      for (int row = 0; row < 2; ++row) {
        uint32_t const zero = Conversion::zero_of(Weights::kZeros ? zeros[m][row] : 0);
        for_each(make_int_sequence<4 * kRuns>{}, [&](auto at) {
          constexpr int kRun = decltype(at)::value / 4;
          constexpr int kPlace = decltype(at)::value % 4;
          pairs(row + kPlace % 2 * 2, m, 2 * kRun + kPlace / 2) =
              Conversion::template pair<kPlace>(words[m][row] + kRun * Conversion::kWords, zero);
        });
      }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
