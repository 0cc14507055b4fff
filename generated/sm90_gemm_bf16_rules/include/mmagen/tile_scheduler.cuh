// SPDX-License-Identifier: MIT-0
// What all tile schedulers share. They decide which output tiles, and which k tiles of them, a CTA or a cluster computes.
//
// A scheduler has, on the host,
//   kSplitK, kSharesTiles          CTAs that share the K of a tile; whether several CTAs may compute parts of one tile
//   Arguments, arguments()         what it takes from the public arguments
//   Params, make_params()          what the kernel gets; Params::Coord is the type of its tiles; kWholeWarp: must all lanes of
//                                  a warp iterate together?
//   grid(), workspace_bytes()      clusters to launch, bytes of workspace, given how many clusters run at once
//   kReduces, reduction()          whether a second kernel may have to add up partial sums; what it needs, or nothing to add
// and on the device, constructed from Params and the CTA's place in its cluster,
//   is_valid(), advance(), work_tile()    iteration over work tiles
//   fixup(), fixup_producer()             adds up the partial sums of CTAs that share a tile; whether this CTA stores it
#pragma once

#include <cstdint>

#include "gemm_arguments.cuh"
#include "tile_raster.cuh"

namespace mmagen {
inline namespace v0_1 {

/// `k_tiles` k tiles of an output tile, from `k_begin` on. `tile`: its index in raster order, of a tile of the cluster.
struct WorkTileInfo {
  unsigned tile;
  int k_begin, k_tiles;
};

/// Parameters of all schedulers. `tiles`: output tiles (of a cluster) in all batches.
struct TileSchedulerParams {
  using Coord = TileCoord;
  static constexpr bool kWholeWarp = false;

  TileRaster raster;
  unsigned tiles;
  int k_tiles;  // of an output tile
};

namespace detail {

/// Output tiles of tile_m x tile_n elements, rasterized in bands of `group` rows.
inline void make_tile_params(TileSchedulerParams& params, GemmShape const& shape, int tile_m, int tile_n, int tile_k,
                             int group) {
  unsigned const tiles_m = unsigned(ceil_div(shape.m, tile_m));
  unsigned const tiles_n = unsigned(ceil_div(shape.n, tile_n));
  params.raster = TileRaster(tiles_m, tiles_n, unsigned(group));
  params.tiles = tiles_m * tiles_n * unsigned(shape.batch);
  params.k_tiles = int(ceil_div(shape.k, tile_k));
}

}  // namespace detail

}  // namespace v0_1
}  // namespace mmagen
