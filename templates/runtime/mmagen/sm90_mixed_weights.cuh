// Loads narrow weights from shared memory as fragments of wgmma's A.
//
// A fragment has pairs of neighbouring columns. Each of the four threads that share a row has one pair of every eight columns,
// which is one byte of packed weights. The four threads load the same words, and each takes its pair out of every word. So the
// activations keep their order in memory, and TMA loads them without reordering.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_scales.cuh"
#include "weight_conversion.cuh"

namespace mmagen {
inline namespace v0_1 {

/// The weights of a chunk and a thread's rows, as they lie in memory.
template <class Config>
struct WeightPairs {
  using A = typename Config::A;
  using Weights = typename Config::Weights;
  using Lines = AccumulatorLines<Config>;
  using Conversion = WeightConversion<Weights::kType, typename Config::B::Element>;
  static constexpr int kGroups = Weights::kChunk / 8;           // of eight columns, in a chunk
  static constexpr int kGroupBytes = Conversion::kBits;         // of eight columns
  static constexpr int kVector = Conversion::kPacked ? 16 : 4;  // bytes that a thread loads at once
  static constexpr int kCountM = Lines::kCountM;
  static_assert(A::kLine % (kGroups * kGroupBytes) == 0 && A::kLine == A::kSwizzleBytes, "a chunk lies in one line");

  /// Where a thread's rows begin in the tile of A (bytes), and what TMA's swizzle does to a column of them: it is a function of
  /// the row within 8, which all rows of a thread have in common.
  struct Rows {
    int first, swizzle;
    uint32_t selector;  // see WeightConversion

    CUTE_DEVICE explicit Rows(int thread) {
      Lines const lines(thread);
      int const quarter = lines.column_of_lane / 2;
      first = (lines.row(0) + lines.row_of_lane) * A::kLine;
      swizzle = (first >> 3) & (A::kSwizzleBytes - 16);
      if constexpr (!Conversion::kPacked) { first += quarter / 2 * 4; }
      selector = Conversion::selector(quarter);
    }

    /// Of row `row` (0 or 1: 8 further) of atom `m`, byte `byte` of a stage's columns.
    CUTE_DEVICE int at(int m, int row, int byte) const {
      int const panel = byte / A::kLine * A::kTileMn * A::kLine;
      int const rows = m * Lines::kMmaM * Lines::kWarpgroupsM + row * 8;
      return first + panel + rows * A::kLine + byte % 16 + ((byte % A::kLine - byte % 16) ^ swizzle);
    }
  };

  alignas(16) uint32_t words[kCountM][2][kGroups];  // (atom, row, group of columns): the one that has the thread's pair

  /// Loads those of chunk `chunk` of a stage.
  CUTE_DEVICE void load(uint8_t const* stage, Rows const& rows, int chunk) {
    using Vector = std::conditional_t<kVector == 16, uint4, uint32_t>;
    constexpr int kStep = kVector == 16 ? 4 : 1;  // groups
    CUTE_UNROLL
    for (int m = 0; m < kCountM; ++m) {
      CUTE_UNROLL
      for (int row = 0; row < 2; ++row) {
        CUTE_UNROLL
        for (int group = 0; group < kGroups; group += kStep) {
          *reinterpret_cast<Vector*>(words[m][row] + group) =
              *reinterpret_cast<Vector const*>(stage + rows.at(m, row, (chunk * kGroups + group) * kGroupBytes));
        }
      }
    }
  }

  /// Converts them to fragments of A. zeros: their zero points, (atom, row).
  template <class TensorRA>
  CUTE_DEVICE void convert(TensorRA& tCrA, Rows const& rows, uint32_t const (&zeros)[kCountM][2]) const {
    using namespace cute;
    Tensor pairs = recast<uint32_t>(tCrA);  // (4,MMA_M,MMA_K): rows, then halves of 16 columns
    CUTE_UNROLL
    for (int m = 0; m < kCountM; ++m) {
      CUTE_UNROLL
      for (int row = 0; row < 2; ++row) {
        uint32_t const zero = Conversion::zero_of(Weights::kZeros ? zeros[m][row] : 0);
        CUTE_UNROLL
        for (int group = 0; group < kGroups; ++group) {
          pairs(row + group % 2 * 2, m, group / 2) = Conversion::pair(words[m][row][group], rows.selector, zero);
        }
      }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
