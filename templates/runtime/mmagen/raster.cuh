// Which tile a CTA computes. Tiles that run at the same time should share rows of A and columns of B in L2.
#pragma once

#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {

struct TileCoord {
  int m, n, batch;
};

/// Maps a linear CTA index to a tile: bands of `most` tile rows, walked column by column within a band.
CUTE_HOST_DEVICE TileCoord raster(unsigned linear, unsigned tiles_m, unsigned tiles_n, unsigned most) {
  unsigned const group = most < tiles_m ? most : tiles_m;  // group * tiles_n stays below the number of CTAs
  unsigned const per_batch = tiles_m * tiles_n;
  unsigned const batch = linear / per_batch;
  unsigned const tile = linear % per_batch;
  unsigned const band = tile / (group * tiles_n);
  unsigned const within = tile % (group * tiles_n);
  unsigned const rows = tiles_m - band * group < group ? tiles_m - band * group : group;  // the last band may be thin
  return {int(band * group + within % rows), int(within / rows), int(batch)};
}

/// Division by a number that the host knows: a persistent kernel divides for every tile, and the hardware cannot.
/// Exact for dividends below 2^31: with shift = ceil(log2(value)), multiplier = ceil(2^(31 + shift) / value).
struct Divisor {
  unsigned value = 1, multiplier = 0, shift = 0;

  Divisor() = default;
  explicit Divisor(unsigned divisor) : value(divisor) {
    while ((1ull << shift) < divisor) { ++shift; }
    multiplier = unsigned(((1ull << (31 + shift)) + divisor - 1) / divisor);
  }

  CUTE_DEVICE unsigned quotient(unsigned dividend) const {
    return value == 1 ? dividend : __umulhi(dividend, multiplier) >> (shift - 1);
  }
};

/// The same map as raster(), with everything that does not depend on the tile computed once by the host.
struct Raster {
  Divisor per_batch, band, rows, rows_of_last;
  unsigned group, tiles_m;

  Raster() = default;
  Raster(unsigned tiles_m, unsigned tiles_n, unsigned most)
      : per_batch(tiles_m * tiles_n), group(most < tiles_m ? most : tiles_m), tiles_m(tiles_m) {
    band = Divisor(group * tiles_n);
    rows = Divisor(group);
    rows_of_last = Divisor(tiles_m % group != 0 ? tiles_m % group : group);
  }

  CUTE_DEVICE TileCoord operator()(unsigned linear) const {
    unsigned const batch = per_batch.quotient(linear);
    unsigned const tile = linear - batch * per_batch.value;
    unsigned const band_index = band.quotient(tile);
    unsigned const first = band_index * group;
    unsigned const within = tile - band_index * band.value;
    bool const whole = tiles_m - first >= group;
    unsigned const n = whole ? rows.quotient(within) : rows_of_last.quotient(within);
    return {int(first + within - n * (whole ? rows.value : rows_of_last.value)), int(n), int(batch)};
  }
};

}  // namespace v0_1
}  // namespace mmagen
