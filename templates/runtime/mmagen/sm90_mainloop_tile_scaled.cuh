// Scales that do not change along K: one per tensor, per row of A, or per column of B. They are factors of the finished sum, so
// each accumulator is multiplied once, before CTAs that share a tile add their sums and before the epilogue.
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
  template <class Tile>
  CUTE_DEVICE static void prefetch_tile_scales(Scales const& scales, Tile const& tile, int thread) {
    prefetch<Config::kTileM>(scales.a_of(tile), tile.first_m(Config::kTileM), tile.batch, thread);
    prefetch<Config::kTileN>(scales.b_of(tile), tile.first_n(Config::kTileN), tile.batch, thread);
  }

  template <class Tile, class TensorRC>
  CUTE_DEVICE static void scale_tile(Scales const& scales, Tile const& tile, int thread,
                                     TensorRC& tCrC) {  // (MMA,MMA_M,MMA_N)
    using namespace cute;
    Lines const lines(thread);
    int const first_m = tile.first_m(Config::kTileM), first_n = tile.first_n(Config::kTileN);
    TileScales<typename Config::ScaleA> const of_row(scales.a_of(tile), first_m + lines.row_of_lane, tile.batch);
    TileScales<typename Config::ScaleB> const of_column(scales.b_of(tile), first_n + lines.column_of_lane, tile.batch);
    float row[Lines::kCountM][2];
    CUTE_UNROLL
    for (int m = 0; m < Lines::kCountM; ++m) {
      row[m][0] = of_row(lines.row(m));
      row[m][1] = of_row(lines.row(m) + 8);
    }
    CUTE_UNROLL
    for (int n = 0; n < Lines::kCountN; ++n) {
      CUTE_UNROLL
      for (int group = 0; group < Lines::kGroups; ++group) {
        float const column[2] = {of_column(lines.column(n, group)), of_column(lines.column(n, group) + 1)};
        CUTE_UNROLL
        for (int m = 0; m < Lines::kCountM; ++m) {
          CUTE_UNROLL
          for (int i = 0; i < 4; ++i) { tCrC(group * 4 + i, m, n) *= row[m][i / 2] * column[i % 2]; }
        }
      }
    }
  }

 private:
  /// The scales of lines that are counted from the one at which `from` points. 1 where they change along K, which the mainloop
  /// has applied; 0 behind the operand's last line, which contributes to nothing that is stored.
  template <class Layout>
  struct TileScales {
    float const* from;
    int lines;

    CUTE_DEVICE TileScales(ScaleTensor<Layout> const& scales, int first, int batch)
        : from(kOfTile ? scales.at(first, 0, batch) : nullptr), lines(scales.extent - first) {}

    CUTE_DEVICE float operator()(int line) const {
      if constexpr (!kOfTile) {
        return 1.0f;
      } else if constexpr (Layout::kLines == 0) {
        return __ldg(from);
      } else {
        return line < lines ? __ldg(from + line) : 0.0f;
      }
    }

   private:
    static constexpr bool kOfTile = Layout::kExists && Layout::kAlongK == 0;
  };
  template <int kTile, class Layout>
  CUTE_DEVICE static void prefetch(ScaleTensor<Layout> const& scales, int begin, int batch, int thread) {
    if constexpr (Layout::kExists && Layout::kAlongK == 0) {
      constexpr int kLine = 32;  // scales of a line of L1
      int const line = begin + thread * kLine;
      bool const first = thread == 0 || Layout::kLines > 0;
      if (first && thread * kLine < kTile && line < scales.extent) {
        asm volatile("prefetch.global.L1 [%0];" ::"l"(scales.at(line, 0, batch)) : "memory");
      }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
