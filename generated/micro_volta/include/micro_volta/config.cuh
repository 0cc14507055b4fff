// micro_volta: every decision of this kernel, made by mmagen from spec.yaml. The headers in ../mmagen do the rest.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

#include "../mmagen/micro_kernel.cuh"

namespace micro_volta {

struct Config {
  // The instruction, and the types that it fixes.
  using MmaOp = cute::SM70_8x8x4_F32F16F16F32_NT;
  using ElementAccumulator = float;

  // TiledMMA: 2 x 2 x 1 atoms of 8 x 8 x 4; its 32 threads cover 16 x 16 x 4 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_2, cute::_2, cute::_1>, cute::Stride<cute::_1, cute::_2, cute::_4>>;
  using Permutation = cute::Tile<cute::Underscore, cute::Underscore, cute::Underscore>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 32;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 32;
  static constexpr int kTileN = 32;
  static constexpr int kTileK = 8;

  static constexpr int kSmemBytes = 1024;

  // A (M,K): M contiguous.
  struct A {
    using Element = cute::half_t;
    static constexpr bool kContiguousK = false;
    static constexpr int kTileMn = 32;
    static constexpr int kTileK = 8;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(cute::_1{}, ld); }

    // Shared memory, (BLK_M,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<2, 3, 3>{},
                                                       cute::Layout<cute::Shape<cute::_32, cute::_8>, cute::Stride<cute::_1, cute::_32>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_32, cute::_8, cute::_1>{}));

    // Fill, global -> shared memory: which elements each thread moves, in vectors of 16 bytes or one by one.
    using FillWide = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_4, cute::_8>, cute::Stride<cute::_1, cute::_4>>{},
        cute::Layout<cute::Shape<cute::_8, cute::_1>>{}));
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::half_t>, Element>{},
        cute::Layout<cute::Shape<cute::_32, cute::_1>, cute::Stride<cute::_1, cute::_32>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::UniversalCopy<uint64_t>, Element>;
  };

  // B (N,K): N contiguous.
  struct B {
    using Element = cute::half_t;
    static constexpr bool kContiguousK = false;
    static constexpr int kTileMn = 32;
    static constexpr int kTileK = 8;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(cute::_1{}, ld); }

    // Shared memory, (BLK_N,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<2, 3, 3>{},
                                                       cute::Layout<cute::Shape<cute::_32, cute::_8>, cute::Stride<cute::_1, cute::_32>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_32, cute::_8, cute::_1>{}));

    // Fill, global -> shared memory: which elements each thread moves, in vectors of 16 bytes or one by one.
    using FillWide = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_4, cute::_8>, cute::Stride<cute::_1, cute::_4>>{},
        cute::Layout<cute::Shape<cute::_8, cute::_1>>{}));
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::half_t>, Element>{},
        cute::Layout<cute::Shape<cute::_32, cute::_1>, cute::Stride<cute::_1, cute::_32>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::UniversalCopy<uint64_t>, Element>;
  };

  // D (M,N): N contiguous.
  using ElementD = float;
  using Scalar = float;
  static constexpr bool kDRowMajor = true;
  CUTE_HOST_DEVICE static constexpr auto stride_d(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }
};

}  // namespace micro_volta
