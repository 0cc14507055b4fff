// ownership_sliced_k: the TiledMMA whose ownership is asked for, made by mmagen from spec.yaml.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>

namespace ownership_sliced_k {

struct Config {
  // The instruction, and the types that it fixes.
  using MmaOp = cute::SM80_16x8x16_F32F16F16F32_TN;
  using ElementAccumulator = float;

  // TiledMMA: 2 x 1 x 2 atoms of 16 x 8 x 16; its 128 threads cover 32 x 32 x 32 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_2, cute::_1, cute::_2>, cute::Stride<cute::_1, cute::_2, cute::_2>>;
  using Permutation = cute::Tile<cute::Underscore, cute::Layout<cute::Shape<cute::_8, cute::_2, cute::_2>, cute::Stride<cute::_1, cute::_16, cute::_8>>, cute::Underscore>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 128;
  static constexpr int kAtomsK = 2;

  // CTA tile.
  static constexpr int kTileM = 32;
  static constexpr int kTileN = 32;
  static constexpr int kTileK = 32;

};

}  // namespace ownership_sliced_k
