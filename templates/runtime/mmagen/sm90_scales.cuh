// Scales of A and B: f32 in global memory, one for each part of an operand.
//
// A Config describes the scales of each operand by a ScaleLayout. Sm90MainloopScaled applies scales that change along K to the
// sum of each k tile; Sm90MainloopTileScaled applies all others to the sum of a whole output tile.
#pragma once

#include <cute/config.hpp>
#include <cute/util/type_traits.hpp>

#include "further_access.cuh"
#include "gemm_arguments.cuh"
#include "tile_raster.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Scales of an operand. kLines_: lines (rows of A, columns of B) that share one, 0 for all of them. kAlongK_: elements of K
/// that share one, 0 for all of them. kContiguousK_: those of neighbouring parts of K are adjacent, else those of neighbouring
/// lines. kGranule_: the CTA tile's lines are looked up in steps of this many, which begin where a part may begin.
template <int kLines_, int kAlongK_, bool kContiguousK_, int kGranule_>
struct ScaleLayout {
  static constexpr bool kExists = true;
  static constexpr int kLines = kLines_;
  static constexpr int kAlongK = kAlongK_;
  static constexpr bool kContiguousK = kContiguousK_;
  static constexpr int kGranule = kGranule_;
};

/// For an operand without scales.
struct NoScale {
  static constexpr bool kExists = false;
  static constexpr int kLines = 0;
  static constexpr int kAlongK = 0;
  static constexpr bool kContiguousK = false;
  static constexpr int kGranule = 0;
};

/// The scales of one operand in global memory; strides in elements. extent: lines of the operand, M or N.
template <class Layout>
struct ScaleTensor {
  float const* data;
  int64_t ld, batch_stride;
  int extent;

  /// Those of a tile of matrix `batch`, whose operand has so many lines: see ScalePointers.
  CUTE_DEVICE ScaleTensor const& of_tile(int, int) const { return *this; }

  /// The address of the scale of a line that the operand has.
  CUTE_DEVICE float const* at(int line, int k, int batch) const {
    float const* const matrix = data + batch * batch_stride;
    if constexpr (Layout::kLines == 0) {
      return matrix;
    } else if constexpr (Layout::kAlongK == 0) {
      return matrix + line / Layout::kLines;
    } else {
      int64_t const part = line / Layout::kLines;
      int64_t const part_k = k / Layout::kAlongK;
      return matrix + (Layout::kContiguousK ? part * ld + part_k : part_k * ld + part);
    }
  }

  /// The scale itself; 1 where there is none, 0 behind the last line, which contributes to nothing that is stored.
  CUTE_DEVICE float get(int line, int k, int batch) const {
    if constexpr (!Layout::kExists) {
      return 1.0f;
    } else {
      return Layout::kLines == 0 || line < extent ? __ldg(at(line, k, batch)) : 0.0f;
    }
  }
};

/// The scales of one operand of groups with matrices of their own: arrays in device memory.
template <class Layout>
struct ScalePointers {
  FurtherPointers tensor;

  CUTE_DEVICE ScaleTensor<Layout> of_tile(int group, int lines) const {
    return {matrix_of<float const>(tensor, group), Layout::kAlongK > 0 ? pitch_of(tensor, group) : 0, 0, lines};
  }
};

namespace detail {

template <class Config, class Layout>
using ScalesOfOperand = std::conditional_t<Layout::kExists && Config::TileScheduler::Params::Coord::kOwnMatrices,
                                           ScalePointers<Layout>, ScaleTensor<Layout>>;

}  // namespace detail

/// The scales of both operands of a kernel. The arguments of a swapped Config have them by their names in a call.
template <class Config>
struct Sm90Scales {
  using LayoutA = typename Config::ScaleA;
  using LayoutB = typename Config::ScaleB;
  using ScalesA = detail::ScalesOfOperand<Config, LayoutA>;
  using ScalesB = detail::ScalesOfOperand<Config, LayoutB>;

  ScalesA a;
  ScalesB b;

  /// Those of a tile, as ScaleTensor.
  template <class Tile>
  CUTE_DEVICE decltype(auto) a_of(Tile const& tile) const {
    return a.of_tile(tile.batch, LayoutA::kExists ? tile.end_m(0) : 0);
  }
  template <class Tile>
  CUTE_DEVICE decltype(auto) b_of(Tile const& tile) const {
    return b.of_tile(tile.batch, LayoutB::kExists ? tile.end_n(0) : 0);
  }

  static Sm90Scales of(GemmArguments<Config> const& args) {
    Sm90Scales scales{};
    if constexpr (LayoutA::kExists) { scales.a = tensor<ScalesA, Config::kSwapped>(args, args.m); }
    if constexpr (LayoutB::kExists) { scales.b = tensor<ScalesB, !Config::kSwapped>(args, args.n); }
    return scales;
  }

 private:
  template <class Scales, bool kOfCallsB, class Arguments>
  static Scales tensor(Arguments const& args, int64_t extent) {
    if constexpr (kOfCallsB) {
      return as_scales<Scales>(args.scale_b, extent);
    } else {
      return as_scales<Scales>(args.scale_a, extent);
    }
  }
  template <class Scales>
  static Scales as_scales(FurtherTensor const& tensor, int64_t extent) {
    return {static_cast<float const*>(tensor.data), tensor.ld, tensor.batch_stride, int(extent)};
  }
  template <class Scales>
  static Scales as_scales(FurtherPointers const& tensor, int64_t) {
    return {tensor};
  }
};

/// Which lines of the CTA tile a thread's accumulators belong to. PTX ISA, "Register Fragments for wgmma": rows t/4 and t/4 + 8
/// of the warp's 16, columns 2 * (t % 4) and the next in every group of 8.
template <class Config>
struct AccumulatorLines {
  using TiledMma = typename Config::TiledMma;
  static constexpr int kMmaM = 64;
  static constexpr int kMmaN = decltype(cute::size<1>(typename TiledMma::AtomShape_MNK{}))::value;
  static constexpr int kWarpgroupsM = decltype(cute::size<1>(typename TiledMma::ThrLayoutVMNK{}))::value;
  static constexpr int kWarpgroupsN = decltype(cute::size<2>(typename TiledMma::ThrLayoutVMNK{}))::value;
  static constexpr int kCountM = Config::kTileM / (kMmaM * kWarpgroupsM);  // atoms of a warpgroup
  static constexpr int kCountN = Config::kTileN / (kMmaN * kWarpgroupsN);
  static constexpr int kGroups = kMmaN / 8;  // of an atom's columns

  int atom_m, atom_n, row_of_lane, column_of_lane;

  /// `thread`: index within the TiledMMA.
  CUTE_DEVICE explicit AccumulatorLines(int thread) {
    auto const [in_warpgroup, warpgroup_m, warpgroup_n, _k] = typename TiledMma::ThrLayoutVMNK{}.get_flat_coord(thread);
    // With one warpgroup along a mode the offset is a constant, and so are lookups by it.
    atom_m = kWarpgroupsM == 1 ? 0 : int(warpgroup_m) * kMmaM;
    atom_n = kWarpgroupsN == 1 ? 0 : int(warpgroup_n) * kMmaN;
    row_of_lane = int(in_warpgroup) / 32 * 16 + int(in_warpgroup) % 32 / 4;
    column_of_lane = int(in_warpgroup) % 4 * 2;
  }

  /// The first row of atom `m` in the CTA tile, and the first column of group `group` of atom `n`.
  CUTE_DEVICE int row(int m) const { return atom_m + m * kMmaM * kWarpgroupsM; }
  CUTE_DEVICE int column(int n, int group) const { return atom_n + n * kMmaN * kWarpgroupsN + group * 8; }
};

}  // namespace v0_1
}  // namespace mmagen
