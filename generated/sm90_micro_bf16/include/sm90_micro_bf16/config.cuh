// SPDX-License-Identifier: MIT-0
// sm90_micro_bf16: all decisions about this kernel, made by mmagen from spec.yaml.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

#include "../mmagen/sm90_micro_kernel.cuh"

namespace sm90_micro_bf16 {

struct Config {
  // The instruction and its types.
  using MmaOp = cute::SM90_64x64x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>;
  using ElementAccumulator = float;

  // TiledMMA: 1 x 1 x 1 atoms of 64 x 64 x 16; its 128 threads cover 64 x 64 x 16 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_1, cute::_1, cute::_1>, cute::Stride<cute::_1, cute::_1, cute::_1>>;
  using Permutation = cute::Tile<cute::Underscore, cute::Underscore, cute::Underscore>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}, Permutation{}));
  static constexpr int kThreads = 128;
  static constexpr int kAtomsK = 1;

  // CTA tile.
  static constexpr int kTileM = 64;
  static constexpr int kTileN = 64;
  static constexpr int kTileK = 64;

  static constexpr int kSmemBytes = 16384;

  // A (M,K): K contiguous.
  struct A {
    using Element = cute::bfloat16_t;
    static constexpr bool kContiguousK = true;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_M,BLK_K,PIPE), in rows of 128 bytes, swizzled as wgmma's descriptors say.
    using SmemLayoutAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_64, cute::_64, cute::_1>{}, cute::Step<cute::_1, cute::_2, cute::_3>{}));

    // Copy, global -> shared memory: the elements that each thread copies, one by one.
    using GmemCopyNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::bfloat16_t>, Element>{},
        cute::Layout<cute::Shape<cute::_2, cute::_64>, cute::Stride<cute::_64, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    static constexpr bool kInRegisters = false;  // wgmma reads it from shared memory
  };

  // B (N,K): K contiguous.
  struct B {
    using Element = cute::bfloat16_t;
    static constexpr bool kContiguousK = true;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_N,BLK_K,PIPE), in rows of 128 bytes, swizzled as wgmma's descriptors say.
    using SmemLayoutAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_64, cute::_64, cute::_1>{}, cute::Step<cute::_1, cute::_2, cute::_3>{}));

    // Copy, global -> shared memory: the elements that each thread copies, one by one.
    using GmemCopyNarrow = decltype(cute::make_tiled_copy(
        cute::Copy_Atom<cute::UniversalCopy<cute::bfloat16_t>, Element>{},
        cute::Layout<cute::Shape<cute::_2, cute::_64>, cute::Stride<cute::_64, cute::_1>>{},
        cute::Layout<cute::Shape<cute::_1, cute::_1>>{}));

    static constexpr bool kInRegisters = false;  // wgmma reads it from shared memory
  };

  // D (M,N): N contiguous.
  using ElementD = float;
  using Scalar = float;
  static constexpr bool kDRowMajor = true;
  CUTE_HOST_DEVICE static constexpr auto stride_d(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }
};

}  // namespace sm90_micro_bf16
