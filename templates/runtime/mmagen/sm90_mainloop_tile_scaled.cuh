// Scales that are the same along all of K: of a tensor, of each row of A, of each column of B. They are factors of the finished
// sum, so each accumulator is multiplied once, before CTAs that share a tile add up their sums and before the epilogue.
#pragma once

#include "sm90_scales.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Base: the mainloop that makes the sums.
template <class Config, class Base>
struct Sm90MainloopTileScaled : Base {
  using Scales = Sm90Scales<Config>;
  using Lines = AccumulatorLines<Config>;
  static constexpr bool kScalesTile = true;

  struct Params : Base::Params {
    Scales tile_scales;
  };

  static CUresult make_params(Params& params, GemmArguments<Config> const& args) {
    params.tile_scales = Scales::of(args);
    return Base::make_params(params, args);
  }
  static Scales make_scales(GemmArguments<Config> const& args) { return Scales::of(args); }
  CUTE_DEVICE static Scales const& tile_scales(Params const& params) { return params.tile_scales; }

  /// Brings a tile's scales into L1, while the last wgmmas run. `thread`: index within the TiledMMA.
  CUTE_DEVICE static void prefetch_tile_scales(Scales const& scales, TileCoord const& tile, int thread) {
    prefetch<Config::kTileM>(scales.a, tile.m, tile.batch, thread);
    prefetch<Config::kTileN>(scales.b, tile.n, tile.batch, thread);
  }

  template <class TensorRC>
  CUTE_DEVICE static void scale_tile(Scales const& scales, TileCoord const& tile, int thread,
                                     TensorRC& tCrC) {  // (MMA,MMA_M,MMA_N)
    using namespace cute;
    Lines const lines(thread);
    float row[Lines::kCountM][2];
    CUTE_UNROLL
    for (int m = 0; m < Lines::kCountM; ++m) {
      int const first = tile.m * Config::kTileM + lines.row(m) + lines.row_of_lane;
      row[m][0] = of_tile(scales.a, first, tile.batch);
      row[m][1] = of_tile(scales.a, first + 8, tile.batch);
    }
    CUTE_UNROLL
    for (int n = 0; n < Lines::kCountN; ++n) {
      CUTE_UNROLL
      for (int group = 0; group < Lines::kGroups; ++group) {
        int const first = tile.n * Config::kTileN + lines.column(n, group) + lines.column_of_lane;
        float const column[2] = {of_tile(scales.b, first, tile.batch), of_tile(scales.b, first + 1, tile.batch)};
        CUTE_UNROLL
        for (int m = 0; m < Lines::kCountM; ++m) {
          CUTE_UNROLL
          for (int i = 0; i < 4; ++i) { tCrC(group * 4 + i, m, n) *= row[m][i / 2] * column[i % 2]; }
        }
      }
    }
  }

 private:
  /// 1 where the scales change along K, which the mainloop has applied.
  template <class Layout>
  CUTE_DEVICE static float of_tile(ScaleTensor<Layout> const& scales, int line, int batch) {
    if constexpr (Layout::kAlongK > 0) {
      return 1.0f;
    } else {
      return scales.get(line, 0, batch);
    }
  }

  template <int kTile, class Layout>
  CUTE_DEVICE static void prefetch(ScaleTensor<Layout> const& scales, int tile, int batch, int thread) {
    if constexpr (Layout::kExists && Layout::kAlongK == 0) {
      constexpr int kLine = 32;  // scales of a line of L1
      int const line = tile * kTile + thread * kLine;
      bool const first = thread == 0 || Layout::kLines > 0;
      if (first && thread * kLine < kTile && line < scales.extent) {
        asm volatile("prefetch.global.L1 [%0];" ::"l"(scales.at(line, 0, batch)) : "memory");
      }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
