// Which tile a CTA computes. Tiles that run at the same time should share rows of A and columns of B in L2.
#pragma once

#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {

struct TileCoord {
  int m, n, batch;
};

/// Maps a linear CTA index to a tile: bands of `most` tile rows, walked column by column within a band.
CUTE_HOST_DEVICE TileCoord raster(unsigned linear, unsigned tiles_m, unsigned tiles_n, unsigned most)
{
  unsigned const group = most < tiles_m ? most : tiles_m;  // group * tiles_n stays below the number of CTAs
  unsigned const per_batch = tiles_m * tiles_n;
  unsigned const batch = linear / per_batch;
  unsigned const tile = linear % per_batch;
  unsigned const band = tile / (group * tiles_n);
  unsigned const within = tile % (group * tiles_n);
  unsigned const rows = tiles_m - band * group < group ? tiles_m - band * group : group;  // the last band may be thin
  return {int(band * group + within % rows), int(within / rows), int(batch)};
}

}  // namespace v0_1
}  // namespace mmagen
