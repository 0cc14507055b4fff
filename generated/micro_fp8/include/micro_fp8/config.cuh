// micro_fp8: every decision of this kernel, made by mmagen from spec.yaml. The headers in ../mmagen do the rest.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

#include "../mmagen/micro_kernel.cuh"

namespace micro_fp8 {

struct Config {
  // The instruction, and the types that it fixes.
  using MmaOp = cute::SM89_16x8x32_F32E4M3E5M2F32_TN;
  using ElementAccumulator = float;

  // TiledMMA: 1 x 1 x 1 atoms of 16 x 8 x 32; its 32 threads cover 16 x 8 x 32 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_1, cute::_1, cute::_1>, cute::Stride<cute::_1, cute::_1, cute::_1>>;
  using Permutation = cute::Tile<cute::Underscore, cute::Underscore, cute::Underscore>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 32;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 16;
  static constexpr int kTileN = 16;
  static constexpr int kTileK = 64;

  static constexpr int kSmemBytes = 2048;

  // A (M,K): K contiguous.
  struct A {
    using Element = cute::float_e4m3_t;
    static constexpr bool kContiguousK = true;
    static constexpr int kTileMn = 16;
    static constexpr int kTileK = 64;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_M,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<2, 4, 3>{},
                                                       cute::Layout<cute::Shape<cute::_8, cute::_64>, cute::Stride<cute::_64, cute::_1>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_16, cute::_64, cute::_1>{}));

    // Fill, global -> shared memory: which elements each thread moves, in vectors of 16 bytes or one by one.
    using FillWide = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_8, cute::_4>, cute::Stride<cute::_4, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_16>>{}));
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::float_e4m3_t>, Element>{},
        cute::Layout<cute::Shape<cute::_1, cute::_32>, cute::Stride<cute::_32, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::SM75_U32x4_LDSM_N, Element>;
  };

  // B (N,K): K contiguous.
  struct B {
    using Element = cute::float_e5m2_t;
    static constexpr bool kContiguousK = true;
    static constexpr int kTileMn = 16;
    static constexpr int kTileK = 64;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_N,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<2, 4, 3>{},
                                                       cute::Layout<cute::Shape<cute::_8, cute::_64>, cute::Stride<cute::_64, cute::_1>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_16, cute::_64, cute::_1>{}));

    // Fill, global -> shared memory: which elements each thread moves, in vectors of 16 bytes or one by one.
    using FillWide = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_8, cute::_4>, cute::Stride<cute::_4, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_16>>{}));
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::float_e5m2_t>, Element>{},
        cute::Layout<cute::Shape<cute::_1, cute::_32>, cute::Stride<cute::_32, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::SM75_U32x2_LDSM_N, Element>;
  };

  // D (M,N): N contiguous.
  using ElementD = float;
  using Scalar = float;
  static constexpr bool kDRowMajor = true;
  CUTE_HOST_DEVICE static constexpr auto stride_d(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }
};

}  // namespace micro_fp8
