// SPDX-License-Identifier: MIT-0
// sm80_gemm_classic: all decisions about this kernel, made by mmagen from spec.yaml.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

#include "../mmagen/epilogue_staged.cuh"
#include "../mmagen/linear_combination.cuh"
#include "../mmagen/mainloop_multistage.cuh"
#include "../mmagen/tile_scheduler_single.cuh"

namespace sm80_gemm_classic {

struct Config {
  // The instruction and its types.
  using MmaOp = cute::SM80_16x8x16_F32F16F16F32_TN;
  using ElementAccumulator = float;

  // TiledMMA: 2 x 2 x 1 atoms of 16 x 8 x 16; its 128 threads cover 32 x 32 x 16 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_2, cute::_2, cute::_1>, cute::Stride<cute::_1, cute::_2, cute::_4>>;
  using Permutation = cute::Tile<cute::_32, cute::_32, cute::_16>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 128;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 32;

  static constexpr int kStages = 3;
  static constexpr int kCtasPerSm = 1;
  static constexpr int kSmemBytes = 49152;
  static constexpr int kRasterGroup = 8;  // rows of tiles in a band that shares columns of B in L2

  // A (M,K): K contiguous.
  struct A {
    using Element = cute::half_t;
    static constexpr bool kContiguousK = true;
    static constexpr int kTileMn = 128;
    static constexpr int kTileK = 32;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_M,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<2, 3, 3>{},
                                                       cute::Layout<cute::Shape<cute::_8, cute::_32>, cute::Stride<cute::_32, cute::_1>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_128, cute::_32, cute::_3>{}));

    // Copy, global -> shared memory: the elements that each thread copies.
    using GmemCopyWide = decltype(cute::make_tiled_copy(  // 8 elements at a time
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_32, cute::_4>, cute::Stride<cute::_4, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_8>>{}));
    using GmemCopyNarrow = decltype(cute::make_tiled_copy(  // 1 element at a time
        cute::Copy_Atom<cute::UniversalCopy<cute::half_t>, Element>{},
        cute::Layout<cute::Shape<cute::_4, cute::_32>, cute::Stride<cute::_32, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Copy, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::SM75_U32x4_LDSM_N, Element>;
  };

  // B (N,K): K contiguous.
  struct B {
    using Element = cute::half_t;
    static constexpr bool kContiguousK = true;
    static constexpr int kTileMn = 128;
    static constexpr int kTileK = 32;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_N,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<2, 3, 3>{},
                                                       cute::Layout<cute::Shape<cute::_8, cute::_32>, cute::Stride<cute::_32, cute::_1>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_128, cute::_32, cute::_3>{}));

    // Copy, global -> shared memory: the elements that each thread copies.
    using GmemCopyWide = decltype(cute::make_tiled_copy(  // 8 elements at a time
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_32, cute::_4>, cute::Stride<cute::_4, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_8>>{}));
    using GmemCopyNarrow = decltype(cute::make_tiled_copy(  // 1 element at a time
        cute::Copy_Atom<cute::UniversalCopy<cute::half_t>, Element>{},
        cute::Layout<cute::Shape<cute::_4, cute::_32>, cute::Stride<cute::_32, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Copy, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::SM75_U32x4_LDSM_N, Element>;
  };

  // C and D (M,N): N contiguous. alpha, beta and alpha * accumulator + beta * C are Scalar.
  using ElementD = cute::half_t;
  using Scalar = float;
  static constexpr bool kDRowMajor = true;
  static constexpr int kEpilogueSlice = 32;
  static constexpr int kEpiloguePad = 8;
  static constexpr int kEpilogueVector = 8;

  using Mainloop = mmagen::MainloopMultistage<Config>;
  using TileScheduler = mmagen::SingleTileScheduler<Config>;
  using Epilogue = mmagen::EpilogueStaged<Config, mmagen::LinearCombination<ElementD, ElementAccumulator, Scalar>>;
};

}  // namespace sm80_gemm_classic
