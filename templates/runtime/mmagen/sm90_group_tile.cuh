// The position of an output tile in its group, in a launch for many problems of different sizes.
#pragma once

#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {

/// m, n: position within the group, in tiles; batch: the group. The group has `begin` .. `end` of the rows of A, C and D or,
/// where the kernel computes the transpose of D (kAlongN_), of the columns. kStacked: the groups are consecutive rows of
/// one matrix; else each group has matrices of its own. See TileCoord for the functions.
template <bool kAlongN_, bool kStacked>
struct GroupTileCoord {
  static constexpr bool kAlongN = kAlongN_;
  static constexpr bool kEndsInside = true;
  static constexpr bool kOwnMatrices = false;
  static constexpr bool kRowsOfGroups = !kAlongN, kColumnsOfGroups = kAlongN;
  static constexpr bool kConsecutiveGroups = kStacked;

  int m, n, batch;
  int begin, end;

  CUTE_DEVICE int first_m(int tile_m) const { return m * tile_m + (kAlongN ? 0 : begin); }
  CUTE_DEVICE int first_n(int tile_n) const { return n * tile_n + (kAlongN ? begin : 0); }
  CUTE_DEVICE int end_m(int m) const { return kAlongN ? m : end; }
  CUTE_DEVICE int end_n(int n) const { return kAlongN ? end : n; }
  /// How many rows the group has; call only with kRowsOfGroups. How many columns; call only with kColumnsOfGroups.
  CUTE_DEVICE int rows_of_group() const { return end - begin; }
  CUTE_DEVICE int columns_of_group() const { return end - begin; }
  CUTE_DEVICE int batch_d() const { return kStacked ? 0 : batch; }
  CUTE_DEVICE int batch_ab() const { return batch; }
  template <class Params>
  CUTE_DEVICE static Params const& inputs(Params const& params) {
    return params;
  }
  template <class Params>
  CUTE_DEVICE static Params const& outputs(Params const& params) {
    return params;
  }
};

/// See materialize(TileCoord&).
template <bool kAlongN, bool kStacked>
CUTE_DEVICE void materialize(GroupTileCoord<kAlongN, kStacked>& tile) {
  asm volatile("" : "+r"(tile.m), "+r"(tile.n), "+r"(tile.batch), "+r"(tile.begin), "+r"(tile.end));
}

}  // namespace v0_1
}  // namespace mmagen
