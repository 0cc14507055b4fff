// sm80_gemm_f64: every decision of this kernel, made by mmagen from spec.yaml. The headers in ../mmagen do the rest.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

#include "../mmagen/epilogue_staged.cuh"
#include "../mmagen/mainloop_multistage.cuh"

namespace sm80_gemm_f64 {

struct Config {
  // The instruction, and the types that it fixes.
  using MmaOp = cute::SM80_8x8x4_F64F64F64F64_TN;
  using ElementAccumulator = double;

  // TiledMMA: 2 x 2 x 1 atoms of 8 x 8 x 4; its 128 threads cover 16 x 16 x 4 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_2, cute::_2, cute::_1>, cute::Stride<cute::_1, cute::_2, cute::_4>>;
  using Permutation = cute::Tile<cute::Underscore, cute::Underscore, cute::Underscore>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 128;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 64;
  static constexpr int kTileN = 64;
  static constexpr int kTileK = 16;

  static constexpr int kStages = 4;
  static constexpr int kCtasPerSm = 1;
  static constexpr int kSmemBytes = 65536;
  static constexpr int kRasterGroup = 8;  // tile rows of a band that shares columns of B in L2

  // A (M,K): K contiguous.
  struct A {
    using Element = double;
    static constexpr bool kContiguousK = true;
    static constexpr int kTileMn = 64;
    static constexpr int kTileK = 16;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_M,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<2, 2, 2>{},
                                                       cute::Layout<cute::Shape<cute::_4, cute::_16>, cute::Stride<cute::_16, cute::_1>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_64, cute::_16, cute::_4>{}));

    // Fill, global -> shared memory: which elements each thread moves, in vectors of 16 bytes or one by one.
    using FillWide = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_16, cute::_8>, cute::Stride<cute::_8, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_2>>{}));
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<double>, Element>{},
        cute::Layout<cute::Shape<cute::_8, cute::_16>, cute::Stride<cute::_16, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::UniversalCopy<double>, Element>;
  };

  // B (N,K): K contiguous.
  struct B {
    using Element = double;
    static constexpr bool kContiguousK = true;
    static constexpr int kTileMn = 64;
    static constexpr int kTileK = 16;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_N,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<2, 2, 2>{},
                                                       cute::Layout<cute::Shape<cute::_4, cute::_16>, cute::Stride<cute::_16, cute::_1>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_64, cute::_16, cute::_4>{}));

    // Fill, global -> shared memory: which elements each thread moves, in vectors of 16 bytes or one by one.
    using FillWide = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_16, cute::_8>, cute::Stride<cute::_8, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_2>>{}));
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<double>, Element>{},
        cute::Layout<cute::Shape<cute::_8, cute::_16>, cute::Stride<cute::_16, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::UniversalCopy<double>, Element>;
  };

  // C and D (M,N): N contiguous. alpha, beta and the sum alpha * acc + beta * C are Scalar.
  using ElementD = double;
  using Scalar = double;
  static constexpr bool kDRowMajor = true;
  static constexpr int kEpilogueSlice = 16;
  static constexpr int kEpiloguePad = 8;
  static constexpr int kEpilogueVector = 2;

  using Mainloop = mmagen::MainloopMultistage<Config>;
  using Epilogue = mmagen::EpilogueStaged<Config>;
};

}  // namespace sm80_gemm_f64
