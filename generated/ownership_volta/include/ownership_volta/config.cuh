// ownership_volta: the TiledMMA whose ownership is asked for, made by mmagen from spec.yaml.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>

namespace ownership_volta {

struct Config {
  // The instruction, and the types that it fixes.
  using MmaOp = cute::SM70_8x8x4_F32F16F16F32_NT;
  using ElementAccumulator = float;

  // TiledMMA: 2 x 2 x 1 atoms of 8 x 8 x 4; its 32 threads cover 16 x 32 x 4 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_2, cute::_2, cute::_1>, cute::Stride<cute::_1, cute::_2, cute::_4>>;
  using Permutation = cute::Tile<cute::Underscore, cute::Layout<cute::Shape<cute::_4, cute::_4, cute::_2>, cute::Stride<cute::_1, cute::_8, cute::_4>>, cute::Underscore>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 32;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 16;
  static constexpr int kTileN = 32;
  static constexpr int kTileK = 4;

};

}  // namespace ownership_volta
