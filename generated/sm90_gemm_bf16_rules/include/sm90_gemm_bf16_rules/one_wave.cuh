// SPDX-License-Identifier: MIT-0
// sm90_gemm_bf16_rules, config one_wave: all decisions about this kernel, made by mmagen from spec.yaml.
#pragma once

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>

#include "../mmagen/linear_combination.cuh"
#include "../mmagen/sm90_epilogue_tma.cuh"
#include "../mmagen/sm90_mainloop_ss.cuh"
#include "../mmagen/sm90_pingpong.cuh"
#include "../mmagen/sm90_tile_scheduler_persistent.cuh"

namespace sm90_gemm_bf16_rules::one_wave {

struct Config {
  static constexpr bool kSwapped = false;

  // The instruction and its types.
  using MmaOp = cute::SM90_64x128x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>;
  using ElementAccumulator = float;

  // TiledMMA: 1 x 1 x 1 atoms of 64 x 128 x 16; its 128 threads cover 64 x 128 x 16 at once.
  using AtomsLayout = cute::Layout<cute::Shape<cute::_1, cute::_1, cute::_1>, cute::Stride<cute::_1, cute::_1, cute::_1>>;
  using TiledMma = decltype(cute::make_tiled_mma(cute::MMA_Atom<MmaOp>{}, AtomsLayout{}));

  // CTA tile.
  static constexpr int kTileM = 64;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 64;
  static constexpr bool kTileNAtLaunch = false;  // else a launch computes all columns of a tile

  // Warpgroups of 128 threads: 2 consumers with a tile each, in turns; 1 producer loads.
  static constexpr int kConsumers = 2;
  static constexpr int kThreads = 384;
  static constexpr int kProducerRegisters = 40;  // of a thread after setmaxnreg; 0: unchanged
  static constexpr int kConsumerRegisters = 232;

  static constexpr int kStages = 8;
  static constexpr int kCtasPerSm = 1;
  static constexpr int kSmemBytes = 230400;
  // Cluster: kClusterM x kClusterN CTAs share operand tiles by multicast.
  static constexpr bool kClusterAtLaunch = false;
  static constexpr int kClusterM = 1;
  static constexpr int kClusterN = 1;
  static constexpr int kRasterGroup = 16;  // rows of cluster tiles in a band that shares columns of B in L2
  static constexpr int kPrefetch = 0;  // stages prefetched into L2 while the preceding kernel still runs

  // A (M,K): K contiguous.
  struct A {
    using Element = cute::bfloat16_t;
    static constexpr bool kContiguousK = true;
    static constexpr int kTileMn = 64;
    static constexpr int kTileK = 64;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_M,BLK_K,PIPE), in panels of kLine contiguous elements, the width of the swizzle.
    using SmemLayoutAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_64, cute::_64, cute::_8>{}, cute::Step<cute::_1, cute::_2, cute::_3>{}));
    static constexpr int kSwizzleBytes = 128;
    static constexpr int kLine = 64;
    static constexpr int kPanels = 1;  // of the tile

    // TMA: a box is kLine x kBoxAcross elements; kBoxes consecutive boxes are this CTA's share of a panel.
    static constexpr int kBoxAcross = 64;
    static constexpr int kBoxes = 1;
    static constexpr mmagen::CacheHint kHint = mmagen::CacheHint::kNormal;
  };

  // B (N,K): K contiguous.
  struct B {
    using Element = cute::bfloat16_t;
    static constexpr bool kContiguousK = true;
    static constexpr int kTileMn = 128;
    static constexpr int kTileK = 64;
    CUTE_HOST_DEVICE static constexpr auto gmem_stride(int64_t ld) { return cute::make_stride(ld, cute::_1{}); }

    // Shared memory, (BLK_N,BLK_K,PIPE), in panels of kLine contiguous elements, the width of the swizzle.
    using SmemLayoutAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;
    using SmemLayout = decltype(cute::tile_to_shape(SmemLayoutAtom{}, cute::Shape<cute::_128, cute::_64, cute::_8>{}, cute::Step<cute::_1, cute::_2, cute::_3>{}));
    static constexpr int kSwizzleBytes = 128;
    static constexpr int kLine = 64;
    static constexpr int kPanels = 1;  // of the tile

    // TMA: a box is kLine x kBoxAcross elements; kBoxes consecutive boxes are this CTA's share of a panel.
    static constexpr int kBoxAcross = 128;
    static constexpr int kBoxes = 1;
    static constexpr mmagen::CacheHint kHint = mmagen::CacheHint::kNormal;
  };

  // C and D (M,N): N contiguous. alpha, beta and alpha * accumulator + beta * C are Scalar.
  using ElementD = cute::bfloat16_t;
  using Scalar = float;
  static constexpr bool kDRowMajor = true;
  static constexpr int kSliceN = 64;  // columns of D that a warpgroup stages at a time, in 64 rows
  static constexpr int kEpilogueBuffers = 2;  // of a warpgroup
  static constexpr int kMostEpilogueBuffers = 2;  // the same, in calls with a short K
  static constexpr int kEpilogueBytes = 32768;  // of all warpgroups

  using Mainloop = mmagen::Sm90MainloopSs<Config>;
  using TileScheduler = mmagen::PersistentTileScheduler<Config>;
  using Epilogue = mmagen::Sm90EpilogueTma<Config, mmagen::LinearCombination<ElementD, ElementAccumulator, Scalar>>;
  using Kernel = mmagen::Sm90Pingpong<Config>;
};

}  // namespace sm90_gemm_bf16_rules::one_wave
