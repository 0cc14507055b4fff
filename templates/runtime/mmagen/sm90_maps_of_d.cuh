// Tensor maps through which TMA stores D.
#pragma once

#include "sm90_tensor_map.cuh"
#include "sm90_tma.cuh"
#include "tile_raster.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Part of a kernel's parameters. kPair: columns of accumulators for one of D.
template <class Config, int kPair, bool kAtLaunch = Config::kTileNAtLaunch>
struct Sm90MapsOfD {
  using Element = typename Config::ElementD;
  CUtensorMap map_d;

  CUresult encode(Element* pointer, MatrixExtent const& d, int, int box_along, int box_across, int swizzle_bytes) {
    return encode_tensor_map<Element>(map_d, pointer, d, box_along, box_across, swizzle_bytes);
  }

  CUTE_DEVICE void prefetch(int, int) const { tma_prefetch_descriptor(&map_d); }

  /// Stores a box that begins at row m and a column of D. to: whose map_d is used, these parameters or a group. tile_n, n: see
  /// below.
  template <class Outputs, class Tile>
  CUTE_DEVICE void store(Outputs const& to, Tile const& tile, unsigned char const* box, int m, int column, int, int) const {
    tma_store(&to.map_d, box, Config::kDRowMajor ? column : m, Config::kDRowMajor ? m : column, tile.batch_d());
  }
};

/// The launch computes tile_n columns of accumulators of each tile. A slice can end beyond them, and must not be stored to the
/// next tile: TMA clips it where the tile is a mode of the tensor.
template <class Config, int kPair>
struct Sm90MapsOfD<Config, kPair, true> {
  using Element = typename Config::ElementD;
  CUtensorMap map_d;      // all of D is one tile
  CUtensorMap map_tiles;  // D in tiles of tile_n columns, without the last one of a row, which D's end clips; only if tiles end
                          // inside of D

  CUresult encode(Element* pointer, MatrixExtent const& d, int tile_n, int box_along, int box_across, int swizzle_bytes) {
    CUresult const result = encode_tensor_map<Element>(map_d, pointer, d, TileMode{1, 0}, box_along, box_across, swizzle_bytes);
    MatrixExtent tile = d;
    int64_t& columns = Config::kDRowMajor ? tile.along : tile.across;
    if (result != CUDA_SUCCESS || !ends_inside(tile_n, columns * kPair)) { return result; }
    int64_t const of_tile = tile_n / kPair;
    TileMode const tiles = {columns / of_tile, Config::kDRowMajor ? of_tile : of_tile * d.ld};
    columns = of_tile;
    return encode_tensor_map<Element>(map_tiles, pointer, tile, tiles, box_along, box_across, swizzle_bytes);
  }

  /// n: columns of all tiles.
  CUTE_DEVICE void prefetch(int tile_n, int n) const {
    tma_prefetch_descriptor(&map_d);
    if (ends_inside(tile_n, n)) { tma_prefetch_descriptor(&map_tiles); }
  }

  template <class Outputs>
  CUTE_DEVICE void store(Outputs const&, TileCoord const& tile, unsigned char const* box, int m, int column, int tile_n,
                         int n) const {
    int const begin = tile.first_n(tile_n);
    // The compiler cannot know that a selected address is uniform, and would store in a loop over the threads' addresses.
    if (ends_inside(tile_n, n - begin)) {
      column -= begin / kPair;
      tma_store(&map_tiles, box, Config::kDRowMajor ? column : m, Config::kDRowMajor ? m : column, tile.n, tile.batch_d());
    } else {
      tma_store(&map_d, box, Config::kDRowMajor ? column : m, Config::kDRowMajor ? m : column, 0, tile.batch_d());
    }
  }

 private:
  /// Does a tile end inside of D, if n columns of D follow its first one, that one included? Whole tiles need no clipping,
  /// since slices end with them.
  CUTE_HOST_DEVICE static constexpr bool ends_inside(int tile_n, int64_t n) { return tile_n < Config::kTileN && tile_n < n; }
};

}  // namespace v0_1
}  // namespace mmagen
