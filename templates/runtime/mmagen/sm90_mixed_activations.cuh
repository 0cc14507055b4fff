// Activations of kernels with weights of few bits: the other warps of the producer's warpgroup put each stage of them into the
// order of the weights' fragments (sm90_mixed_weights.cuh). TMA loads them, or, where they are few, these warps do: TMA takes
// one box after the other, and short boxes of activations would delay those of the weights.
#pragma once

#include <cute/tensor.hpp>

#include "gemm_arguments.cuh"
#include "sm90_pipeline.cuh"

namespace mmagen {
inline namespace v0_1 {

/// prepared[i]: the activations of stage i are in the order of the fragments, and all preparing warps have gone past full[i].
template <class Config>
struct Sm90MixedPipeline : Sm90Pipeline<Config> {
  static constexpr int kPreparingWarps = 3;  // of the producer's warpgroup

  Barrier prepared[Config::kStages];

  /// As Sm90Pipeline::init().
  CUTE_DEVICE void init(int consumers) {
    Sm90Pipeline<Config>::init(consumers);
    for (Barrier& one : prepared) { one.init(kPreparingWarps); }
  }
};

namespace detail {

/// Makes writes of this thread to shared memory visible to wgmma and TMA.
CUTE_DEVICE void fence_shared_for_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace detail

/// The activations of a call, B of a Config, for threads that load them.
template <class Config>
struct ActivationMatrix {
  using Element = typename Config::B::Element;

  Element const* data;
  int64_t ld, batch_stride;
  int rows, k;

  /// Where a row begins; of rows behind the last one that one, since they make elements that are not stored. Rows begin at
  /// multiples of 16 bytes.
  CUTE_DEVICE Element const* row(int batch, int row) const {
    return data + batch * batch_stride + cute::min(row, rows - 1) * ld;
  }

  /// 8 elements from `from` on, of which the first `count` lie in the row; the others are zeros, since what lies there may be a
  /// NaN, which a weight of zero would not cancel.
  CUTE_DEVICE static uint4 load_end(Element const* from, int count) {
    if (count >= 8) { return __ldg(reinterpret_cast<uint4 const*>(from)); }
    auto const* const halves = reinterpret_cast<uint16_t const*>(from);
    auto const half = [&](int i) { return i < count ? uint32_t(__ldg(halves + i)) : 0u; };
    return {half(0) | half(1) << 16, half(2) | half(3) << 16, half(4) | half(5) << 16, half(6) | half(7) << 16};
  }
};

/// The order of a stage of activations, of columns of Config::B. A step is 8 rows x 128 columns, four times 16 bytes for each
/// lane of a warp: lanes of a quarter warp access 8 rows of the same column, which the swizzle puts into different banks.
template <class Config>
struct ActivationOrder {
  using B = typename Config::B;
  static constexpr int kRuns = Config::Weights::kChunk / 32;  // of 8 elements in a quarter of a chunk
  static constexpr int kStepsK = B::kTileK / 128;             // along K
  static constexpr int kMostSteps = kStepsK * B::kTileMn / 8;
  static_assert(B::kTileK % 128 == 0, "a step is 128 columns");
  static_assert(B::kLine == 64 && B::kSwizzleBytes == 128, "Step knows this layout");

  /// Rows of activations that a stage has, in blocks of 8, if TMA loads boxes of `lines` rows.
  static int row_blocks(int lines) { return (lines < B::kBoxAcross ? lines : B::kTileMn) / 8; }

  /// Which elements a lane has in one step.
  struct Step {
    int row, column, run;  // column: of the chunk, in units of 8 elements

    CUTE_DEVICE Step(int step, int lane)
        : row(step / kStepsK * 8 + lane % 8),
          column(step % kStepsK * 16 + lane / 8 / kRuns * 4 * kRuns),
          run(lane / 8 % kRuns) {}

    /// The column of quarter q of the chunk, as it lies in memory.
    CUTE_DEVICE int source(int q) const { return column + q * kRuns + run; }

    CUTE_DEVICE uint4* unit(typename B::Element* stage, int of_column) const {
      int const line = of_column / 8 * B::kTileMn + row;
      return reinterpret_cast<uint4*>(stage + line * 64 + (of_column % 8 ^ row % 8) * 8);
    }

    /// Stores the elements of the four quarters in the order of the fragments.
    CUTE_DEVICE void store(typename B::Element* stage, uint4 const (&from)[4]) const {
      int const to = column + 4 * run;
      merge(unit(stage, to), from, [](uint4 const& x) { return __byte_perm(x.x, x.z, 0x5410); });
      merge(unit(stage, to + 1), from, [](uint4 const& x) { return __byte_perm(x.x, x.z, 0x7632); });
      merge(unit(stage, to + 2), from, [](uint4 const& x) { return __byte_perm(x.y, x.w, 0x5410); });
      merge(unit(stage, to + 3), from, [](uint4 const& x) { return __byte_perm(x.y, x.w, 0x7632); });
    }

   private:
    /// Stores one pair of each quarter's elements, which `pair_of` takes from them.
    template <class PairOf>
    CUTE_DEVICE static void merge(uint4* to, uint4 const (&from)[4], PairOf const& pair_of) {
      *to = {pair_of(from[0]), pair_of(from[1]), pair_of(from[2]), pair_of(from[3])};
    }
  };

  /// Puts a stage that TMA has loaded into the order of the fragments.
  CUTE_DEVICE static void permute(typename B::Element* stage, int row_blocks, int lane) {
    CUTE_NO_UNROLL
    for (int i = 0; i < kStepsK * row_blocks; ++i) {
      Step const step(i, lane);
      uint4 from[4];
      CUTE_UNROLL
      for (int q = 0; q < 4; ++q) { from[q] = *step.unit(stage, step.source(q)); }
      __syncwarp();
      step.store(stage, from);
    }
  }

  /// A stage of activations in the registers of a warp, loaded from global memory.
  struct Held {
    typename B::Element const* rows[B::kTileMn / 8];  // of the lane's rows: its first element of k tile 0
    int left;                                         // elements from there to the end of a row
    uint4 from[kMostSteps][4];

    /// Those of an output tile follow.
    template <class Tile>
    CUTE_DEVICE void begin(ActivationMatrix<Config> const& matrix, Tile const& tile, int lane) {
      Step const first(0, lane);
      left = matrix.k - first.source(0) * 8;
      CUTE_UNROLL
      for (int block = 0; block < B::kTileMn / 8; ++block) {
        rows[block] = matrix.row(tile.batch, tile.n * Config::kTileN + first.row + block * 8) + first.source(0) * 8;
      }
    }

    CUTE_DEVICE void load(int k_tile, int row_blocks, int k) {
      int const column = k_tile * B::kTileK;
      if (column + B::kTileK <= k) {
        load(row_blocks, column, [](typename B::Element const* at, int) { return __ldg(reinterpret_cast<uint4 const*>(at)); });
      } else {
        load(row_blocks, column,
             [&](typename B::Element const* at, int of_row) { return ActivationMatrix<Config>::load_end(at, left - of_row); });
      }
    }

    CUTE_DEVICE void store(typename B::Element* stage, int row_blocks, int lane) const {
      CUTE_UNROLL
      for (int i = 0; i < kMostSteps; ++i) {
        if (i >= kStepsK * row_blocks) { return; }
        Step(i, lane).store(stage, from[i]);
      }
    }

   private:
    /// load_vector(address, elements of the row before it): 8 elements.
    template <class LoadVector>
    CUTE_DEVICE void load(int row_blocks, int column, LoadVector const& load_vector) {
      CUTE_UNROLL
      for (int i = 0; i < kMostSteps; ++i) {
        if (i >= kStepsK * row_blocks) { return; }
        CUTE_UNROLL
        for (int q = 0; q < 4; ++q) {
          int const of_row = column + i % kStepsK * 128 + q * kRuns * 8;
          from[i][q] = load_vector(rows[i / kStepsK] + of_row, of_row);
        }
      }
    }
  };
};

}  // namespace v0_1
}  // namespace mmagen
