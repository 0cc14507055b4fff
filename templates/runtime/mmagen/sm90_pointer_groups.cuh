// Groups of separate matrices: the data about each group that the kernel reads from the workspace.
#pragma once

#include <cuda.h>

#include <cstdint>

#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {

/// Tiles of a cluster along M and N, 0 for a group that is not computed, k tiles of each, and rows of D as the
/// kernel has it.
struct alignas(16) GroupTiles {
  int m, n, k, rows;
};

/// The matrices of one group: its tensor maps, and what threads load and store themselves. Extents and strides in elements;
/// operands as the kernel has them. The members that an epilogue reads have the names of its own parameters.
template <class ElementD>
struct alignas(128) GroupMatrices {
  CUtensorMap map_a, map_b, map_d, map_source;
  ElementD const* c;
  int64_t ldc;
  ElementD* d;
  int64_t ldd;
  int m, n;
  int tma_end;     // threads store the slices that end beyond this column of D (row, if D is column-major)
  bool tma_loads;  // can TMA load C?
  static constexpr int64_t batch_stride_c = 0, batch_stride_d = 0;
};
inline constexpr int kMapsOfGroup = 4;

/// Makes a tensor map that a kernel has written visible to this thread's copies by TMA. PTX ISA, "fence.proxy.tensormap".
CUTE_DEVICE void acquire_tensor_map(CUtensorMap const* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

/// The position of an output tile of a group with matrices of its own. m, n: in tiles; batch: the group. See TileCoord for the
/// functions.
template <class ElementD>
struct PointerTileCoord {
  static constexpr bool kEndsInside = false;
  static constexpr bool kOwnMatrices = true;
  static constexpr bool kRowsOfGroups = true, kColumnsOfGroups = true;
  static constexpr bool kConsecutiveGroups = false;

  int m, n, batch;
  int rows;  // of the group's D, as the kernel has it
  GroupMatrices<ElementD> const* group;

  CUTE_DEVICE int first_m(int tile_m) const { return m * tile_m; }
  CUTE_DEVICE int first_n(int tile_n) const { return n * tile_n; }
  CUTE_DEVICE int end_m(int) const { return group->m; }
  CUTE_DEVICE int rows_of_group() const { return rows; }
  CUTE_DEVICE int end_n(int) const { return group->n; }
  CUTE_DEVICE static int batch_d() { return 0; }
  CUTE_DEVICE static int batch_ab() { return 0; }
  template <class Params>
  CUTE_DEVICE GroupMatrices<ElementD> const& outputs(Params const&) const {
    return *group;
  }
  template <class Params>
  CUTE_DEVICE GroupMatrices<ElementD> const& inputs(Params const&) const {
    return *group;
  }
  /// Call in each thread that copies by TMA, before its first copy of a group.
  CUTE_DEVICE void acquire_inputs() const {
    acquire_tensor_map(&group->map_a);
    acquire_tensor_map(&group->map_b);
  }
  CUTE_DEVICE void acquire_outputs() const {
    acquire_tensor_map(&group->map_d);
    if (group->tma_loads) { acquire_tensor_map(&group->map_source); }
  }
};

/// See materialize(TileCoord&).
template <class ElementD>
CUTE_DEVICE void materialize(PointerTileCoord<ElementD>& tile) {
  asm volatile("" : "+r"(tile.m), "+r"(tile.n), "+r"(tile.batch), "+l"(tile.group));
}

}  // namespace v0_1
}  // namespace mmagen
