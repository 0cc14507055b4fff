// fma_micro: every decision of this kernel, made by mmagen from spec.yaml. The headers in ../mmagen do the rest.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

#include "../mmagen/micro_kernel.cuh"

namespace fma_micro {

struct Config {
  // The instruction, and the types that it fixes.
  using MmaOp = cute::UniversalFMA<float, float, float, float>;
  using ElementAccumulator = float;

  // TiledMMA: 16 x 16 x 1 atoms of 1 x 1 x 1; its 256 threads cover 16 x 16 x 1 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_16, cute::_16, cute::_1>, cute::Stride<cute::_1, cute::_16, cute::_256>>;
  using Permutation = cute::Tile<cute::Underscore, cute::Underscore, cute::Underscore>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 256;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 32;
  static constexpr int kTileN = 32;
  static constexpr int kTileK = 8;

  static constexpr int kSmemBytes = 2048;

  // A (M,K): M contiguous.
  struct A {
    using Element = float;
    static constexpr bool kContiguousK = false;
    static constexpr int kTileMn = 32;
    static constexpr int kTileK = 8;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(cute::_1{}, ld); }

    // Shared memory, (BLK_M,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<3, 2, 3>{},
                                                       cute::Layout<cute::Shape<cute::_32, cute::_8>, cute::Stride<cute::_1, cute::_32>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_32, cute::_8, cute::_1>{}));

    // Fill, global -> shared memory: which elements each thread moves, in vectors of 16 bytes or one by one.
    using FillWide = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_8, cute::_8>, cute::Stride<cute::_1, cute::_8>>{},
        cute::Layout<cute::Shape<cute::_4, cute::_1>>{}));
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<float>, Element>{},
        cute::Layout<cute::Shape<cute::_32, cute::_8>, cute::Stride<cute::_1, cute::_32>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::UniversalCopy<float>, Element>;
  };

  // B (N,K): N contiguous.
  struct B {
    using Element = float;
    static constexpr bool kContiguousK = false;
    static constexpr int kTileMn = 32;
    static constexpr int kTileK = 8;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(cute::_1{}, ld); }

    // Shared memory, (BLK_N,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<3, 2, 3>{},
                                                       cute::Layout<cute::Shape<cute::_32, cute::_8>, cute::Stride<cute::_1, cute::_32>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_32, cute::_8, cute::_1>{}));

    // Fill, global -> shared memory: which elements each thread moves, in vectors of 16 bytes or one by one.
    using FillWide = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_8, cute::_8>, cute::Stride<cute::_1, cute::_8>>{},
        cute::Layout<cute::Shape<cute::_4, cute::_1>>{}));
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<float>, Element>{},
        cute::Layout<cute::Shape<cute::_32, cute::_8>, cute::Stride<cute::_1, cute::_32>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::UniversalCopy<float>, Element>;
  };

  // D (M,N): N contiguous.
  using ElementD = float;
  using Scalar = float;
  static constexpr bool kDRowMajor = true;
  CUTE_HOST_DEVICE static constexpr auto stride_d(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }
};

}  // namespace fma_micro
