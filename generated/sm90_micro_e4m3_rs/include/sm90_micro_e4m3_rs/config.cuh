// sm90_micro_e4m3_rs: every decision of this kernel, made by mmagen from spec.yaml. The headers in ../mmagen do the rest.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

#include "../mmagen/sm90_micro_kernel.cuh"

namespace sm90_micro_e4m3_rs {

struct Config {
  // The instruction, and the types that it fixes.
  using MmaOp = cute::SM90_64x32x32_F32E4M3E4M3_RS_TN<>;
  using ElementAccumulator = float;

  // TiledMMA: 2 x 1 x 1 atoms of 64 x 32 x 32; its 256 threads cover 128 x 32 x 32 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_2, cute::_1, cute::_1>, cute::Stride<cute::_1, cute::_2, cute::_2>>;
  using Permutation = cute::Tile<cute::Underscore, cute::Underscore, cute::Underscore>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 256;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 64;
  static constexpr int kTileK = 64;

  static constexpr int kSmemBytes = 12288;

  // A (M,K): K contiguous.
  struct A {
    using Element = cute::float_e4m3_t;
    static constexpr bool kContiguousK = true;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_M,BLK_K,PIPE), in lines of 64 bytes, as wgmma's descriptors know it.
    using SmemLayoutAtom = cute::GMMA::Layout_K_SW64_Atom<Element>;
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_128, cute::_64, cute::_1>{}, cute::Step<cute::_1, cute::_2, cute::_3>{}));

    // Fill, global -> shared memory: which elements each thread moves, one by one.
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::float_e4m3_t>, Element>{},
        cute::Layout<cute::Shape<cute::_4, cute::_64>, cute::Stride<cute::_64, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    // Load, shared memory -> fragments.
    static constexpr bool kInRegisters = true;
    using SmemCopy = cute::Copy_Atom<cute::SM75_U32x4_LDSM_N, Element>;
  };

  // B (N,K): K contiguous.
  struct B {
    using Element = cute::float_e4m3_t;
    static constexpr bool kContiguousK = true;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_N,BLK_K,PIPE), in lines of 64 bytes, as wgmma's descriptors know it.
    using SmemLayoutAtom = cute::GMMA::Layout_K_SW64_Atom<Element>;
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_64, cute::_64, cute::_1>{}, cute::Step<cute::_1, cute::_2, cute::_3>{}));

    // Fill, global -> shared memory: which elements each thread moves, one by one.
    using FillNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::float_e4m3_t>, Element>{},
        cute::Layout<cute::Shape<cute::_4, cute::_64>, cute::Stride<cute::_64, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    static constexpr bool kInRegisters = false;  // wgmma reads it from shared memory
  };

  // D (M,N): N contiguous.
  using ElementD = float;
  using Scalar = float;
  static constexpr bool kDRowMajor = true;
  CUTE_HOST_DEVICE static constexpr auto stride_d(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }
};

}  // namespace sm90_micro_e4m3_rs
