// ownership_tiled: the TiledMMA whose ownership is asked for, made by mmagen from spec.yaml.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>

namespace ownership_tiled {

struct Config {
  // The instruction, and the types that it fixes.
  using MmaOp = cute::SM80_16x8x16_F32F16F16F32_TN;
  using ElementAccumulator = float;

  // TiledMMA: 2 x 2 x 1 atoms of 16 x 8 x 16; its 128 threads cover 32 x 32 x 16 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_2, cute::_2, cute::_1>, cute::Stride<cute::_1, cute::_2, cute::_4>>;
  using Permutation = cute::Tile<cute::_32, cute::_32, cute::_16>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 128;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 32;
  static constexpr int kTileN = 32;
  static constexpr int kTileK = 16;

};

}  // namespace ownership_tiled
