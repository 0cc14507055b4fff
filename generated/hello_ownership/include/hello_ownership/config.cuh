// SPDX-License-Identifier: MIT-0
// hello_ownership: the TiledMMA, made by mmagen from spec.yaml.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>

namespace hello_ownership {

struct Config {
  // The instruction and its types.
  using MmaOp = cute::SM80_16x8x16_F32F16F16F32_TN;
  using ElementAccumulator = float;

  // TiledMMA: 1 x 1 x 1 atoms of 16 x 8 x 16; its 32 threads cover 16 x 8 x 16 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_1, cute::_1, cute::_1>, cute::Stride<cute::_1, cute::_1, cute::_1>>;
  using Permutation = cute::Tile<cute::Underscore, cute::Underscore, cute::Underscore>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 32;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 16;
  static constexpr int kTileN = 8;
  static constexpr int kTileK = 16;

};

}  // namespace hello_ownership
