// sm89_gemm_e4m3: every decision of this kernel, made by mmagen from spec.yaml. The headers in ../mmagen do the rest.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

#include "../mmagen/epilogue_staged.cuh"
#include "../mmagen/mainloop_multistage.cuh"

namespace sm89_gemm_e4m3 {

struct Config {
  // The instruction, and the types that it fixes.
  using MmaOp = cute::SM89_16x8x32_F32E4M3E4M3F32_TN;
  using ElementAccumulator = float;

  // TiledMMA: 2 x 4 x 1 atoms of 16 x 8 x 32; its 256 threads cover 32 x 64 x 32 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_2, cute::_4, cute::_1>, cute::Stride<cute::_1, cute::_2, cute::_8>>;
  using Permutation = cute::Tile<cute::_32, cute::_64, cute::_32>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 256;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 64;

  static constexpr int kStages = 4;
  static constexpr int kCtasPerSm = 1;
  static constexpr int kSmemBytes = 65536;
  static constexpr int kRasterGroup = 8;  // tile rows of a band that shares columns of B in L2

  // A (M,K): K contiguous.
  struct A {
    using Element = cute::float_e4m3_t;
    static constexpr bool kContiguousK = true;
    static constexpr int kTileMn = 128;
    static constexpr int kTileK = 64;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_M,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<2, 4, 3>{},
                                                       cute::Layout<cute::Shape<cute::_8, cute::_64>, cute::Stride<cute::_64, cute::_1>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_128, cute::_64, cute::_4>{}));

    // Fill, global -> shared memory: which elements each thread moves, in vectors of 16 bytes or one by one.
    using FillWide = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_64, cute::_4>, cute::Stride<cute::_4, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_16>>{}));
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::float_e4m3_t>, Element>{},
        cute::Layout<cute::Shape<cute::_4, cute::_64>, cute::Stride<cute::_64, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::SM75_U32x4_LDSM_N, Element>;
  };

  // B (N,K): K contiguous.
  struct B {
    using Element = cute::float_e4m3_t;
    static constexpr bool kContiguousK = true;
    static constexpr int kTileMn = 128;
    static constexpr int kTileK = 64;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_N,BLK_K,PIPE).
    using SmemLayoutAtom = decltype(cute::composition(cute::Swizzle<2, 4, 3>{},
                                                       cute::Layout<cute::Shape<cute::_8, cute::_64>, cute::Stride<cute::_64, cute::_1>>{}));
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_128, cute::_64, cute::_4>{}));

    // Fill, global -> shared memory: which elements each thread moves, in vectors of 16 bytes or one by one.
    using FillWide = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, Element>{},
        cute::Layout<cute::Shape<cute::_64, cute::_4>, cute::Stride<cute::_4, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_16>>{}));
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::float_e4m3_t>, Element>{},
        cute::Layout<cute::Shape<cute::_4, cute::_64>, cute::Stride<cute::_64, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    using SmemCopy = cute::Copy_Atom<cute::SM75_U32x4_LDSM_N, Element>;
  };

  // C and D (M,N): N contiguous. alpha, beta and the sum alpha * acc + beta * C are Scalar.
  using ElementD = cute::bfloat16_t;
  using Scalar = float;
  static constexpr bool kDRowMajor = true;
  static constexpr int kEpilogueSlice = 32;
  static constexpr int kEpiloguePad = 8;
  static constexpr int kEpilogueVector = 8;

  using Mainloop = mmagen::MainloopMultistage<Config>;
  using Epilogue = mmagen::EpilogueStaged<Config>;
};

}  // namespace sm89_gemm_e4m3
