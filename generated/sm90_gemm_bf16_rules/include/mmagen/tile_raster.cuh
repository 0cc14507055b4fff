// SPDX-License-Identifier: MIT-0
// The order of output tiles. Tiles that run at the same time should share rows of A and columns of B in L2.
#pragma once

#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {

/// Position of an output tile, in tiles, with the functions that mainloops and epilogues call. The tile of a group has its own
/// (sm90_group_tile.cuh).
struct TileCoord {
  static constexpr bool kEndsInside = false;   // may D go on behind the last row of the tile's group?
  static constexpr bool kOwnMatrices = false;  // is a tile's matrix none of the kernel's parameters?
  static constexpr bool kRowsOfGroups = false, kColumnsOfGroups = false;  // may a group end inside a tile?
  static constexpr bool kConsecutiveGroups = false;                       // are groups consecutive rows of one matrix?

  int m, n, batch;

  /// The first row and the first column of a tile of that size.
  CUTE_DEVICE int first_m(int tile_m) const { return m * tile_m; }
  CUTE_DEVICE int first_n(int tile_n) const { return n * tile_n; }
  /// Rows and columns from there on are not stored; `m` and `n`: extents of D.
  CUTE_DEVICE static int end_m(int m) { return m; }
  CUTE_DEVICE static int end_n(int n) { return n; }
  /// The matrix of C and D.
  CUTE_DEVICE int batch_d() const { return batch; }
  /// The matrix of A and B.
  CUTE_DEVICE int batch_ab() const { return batch; }
  /// Tensor maps and pointers of A and B, and of C and D; `params`: the kernel's.
  template <class Params>
  CUTE_DEVICE static Params const& inputs(Params const& params) {
    return params;
  }
  template <class Params>
  CUTE_DEVICE static Params const& outputs(Params const& params) {
    return params;
  }
};

/// Division by a number that is known on the host, as a multiplication and a shift: GPUs have no integer division.
/// Exact for dividends below 2^31: shift = ceil(log2(divisor)), multiplier = ceil(2^(31 + shift) / divisor).
struct FastDivmod {
  unsigned divisor = 1, multiplier = 0, shift = 0;

  FastDivmod() = default;
  explicit FastDivmod(unsigned divisor) : divisor(divisor) {
    while ((1ull << shift) < divisor) { ++shift; }
    multiplier = unsigned(((1ull << (31 + shift)) + divisor - 1) / divisor);
  }

  CUTE_DEVICE unsigned divide(unsigned dividend) const {
    return divisor == 1 ? dividend : __umulhi(dividend, multiplier) >> (shift - 1);
  }
};

/// Maps a linear index to a tile: bands of `group` rows of tiles, column by column within a band. Batches follow each other.
struct TileRaster {
  FastDivmod per_batch, band, rows, rows_of_last;
  unsigned group, tiles_m;

  TileRaster() = default;
  TileRaster(unsigned tiles_m, unsigned tiles_n, unsigned max_group)
      : per_batch(tiles_m * tiles_n), group(max_group < tiles_m ? max_group : tiles_m), tiles_m(tiles_m) {
    band = FastDivmod(group * tiles_n);
    rows = FastDivmod(group);
    rows_of_last = FastDivmod(tiles_m % group != 0 ? tiles_m % group : group);  // the last band may have fewer rows
  }

  CUTE_DEVICE TileCoord operator()(unsigned index) const {
    unsigned const batch = per_batch.divide(index);
    unsigned const tile = index - batch * per_batch.divisor;
    unsigned const band_index = band.divide(tile);
    unsigned const first = band_index * group;
    unsigned const within = tile - band_index * band.divisor;
    bool const full = tiles_m - first >= group;
    unsigned const n = full ? rows.divide(within) : rows_of_last.divide(within);
    return {int(first + within - n * (full ? rows.divisor : rows_of_last.divisor)), int(n), int(batch)};
  }
};

}  // namespace v0_1
}  // namespace mmagen
