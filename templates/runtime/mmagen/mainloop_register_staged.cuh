// Main loop for devices before sm_80, which have no cp.async: the next tile of A and B waits in registers while the
// current one is multiplied, then goes to the other of two stages of shared memory.
#pragma once

#include <cute/tensor.hpp>

#include "fill.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct MainloopRegisterStaged {
  using A = typename Config::A;
  using B = typename Config::B;
  static constexpr int kStages = Config::kStages;
  static_assert(kStages == 2, "one stage is read while the other is filled from registers");

  struct SharedStorage {
    alignas(128) cute::ArrayEngine<typename A::Element, cute::cosize_v<typename A::SmemLayout>> a;
    alignas(128) cute::ArrayEngine<typename B::Element, cute::cosize_v<typename B::SmemLayout>> b;
  };

  /// Accumulates the CTA tile over all of K. `m_left`, `n_left`: rows of A and B from the tile's origin to the end;
  /// `k_extent`: K of the problem. Leaves shared memory in use: synchronise before writing to it again.
  template <bool kWide, class TensorGA, class TensorGB, class TensorRC>
  CUTE_DEVICE static void run(TensorGA const& gA,  // (BLK_M,BLK_K,k)
                              TensorGB const& gB,  // (BLK_N,BLK_K,k)
                              TensorRC& tCrC,      // (MMA,MMA_M,MMA_N)
                              int m_left, int n_left, int k_extent, SharedStorage& storage) {
    using namespace cute;
    int const k_tiles = size<2>(gA);
    if (k_tiles == 0) { return; }

    Tensor sA = make_tensor(make_smem_ptr(storage.a.begin()), typename A::SmemLayout{});  // (BLK_M,BLK_K,PIPE)
    Tensor sB = make_tensor(make_smem_ptr(storage.b.begin()), typename B::SmemLayout{});  // (BLK_N,BLK_K,PIPE)

    // Fill: global memory -> registers -> shared memory.
    using FillA = conditional_t<kWide, typename A::FillWide, typename A::FillNarrow>;
    using FillB = conditional_t<kWide, typename B::FillWide, typename B::FillNarrow>;
    bool const fills_a = size(FillA{}) == Config::kThreads || threadIdx.x < size(FillA{});
    bool const fills_b = size(FillB{}) == Config::kThreads || threadIdx.x < size(FillB{});
    auto fill_a = FillA{}.get_slice(threadIdx.x);
    auto fill_b = FillB{}.get_slice(threadIdx.x);
    Tensor tAgA = fill_a.partition_S(gA);                                                              // (CPY,CPY_M,CPY_K,k)
    Tensor tAsA = fill_a.partition_D(sA);                                                              // (CPY,CPY_M,CPY_K,PIPE)
    Tensor tAcA = fill_a.partition_S(make_identity_tensor(Shape<Int<A::kTileMn>, Int<A::kTileK>>{}));  // (CPY,CPY_M,CPY_K)
    Tensor tArA = make_fragment_like<typename A::Element>(tAsA(_, _, _, 0));                           // (CPY,CPY_M,CPY_K)
    Tensor tBgB = fill_b.partition_S(gB);                                                              // (CPY,CPY_N,CPY_K,k)
    Tensor tBsB = fill_b.partition_D(sB);                                                              // (CPY,CPY_N,CPY_K,PIPE)
    Tensor tBcB = fill_b.partition_S(make_identity_tensor(Shape<Int<B::kTileMn>, Int<B::kTileK>>{}));  // (CPY,CPY_N,CPY_K)
    Tensor tBrB = make_fragment_like<typename B::Element>(tBsB(_, _, _, 0));                           // (CPY,CPY_N,CPY_K)

    auto fetch = [&](int k_tile) {
      int const k_left = k_extent - k_tile * A::kTileK;
      if (fills_a) { load_tile<A>(tAgA(_, _, _, k_tile), tAcA, tArA, m_left, k_left); }
      if (fills_b) { load_tile<B>(tBgB(_, _, _, k_tile), tBcB, tBrB, n_left, k_left); }
    };
    auto store = [&](int pipe) {
      if (fills_a) { copy(tArA, tAsA(_, _, _, pipe)); }
      if (fills_b) { copy(tBrB, tBsB(_, _, _, pipe)); }
    };

    // Load: shared memory -> registers.
    typename Config::TiledMma mma;
    auto thread_mma = mma.get_slice(threadIdx.x);
    Tensor tCrA = thread_mma.partition_fragment_A(sA(_, _, 0));  // (MMA,MMA_M,MMA_K)
    Tensor tCrB = thread_mma.partition_fragment_B(sB(_, _, 0));  // (MMA,MMA_N,MMA_K)
    auto load_a = make_tiled_copy_A(typename A::SmemCopy{}, mma);
    auto load_b = make_tiled_copy_B(typename B::SmemCopy{}, mma);
    auto thread_load_a = load_a.get_slice(threadIdx.x);
    auto thread_load_b = load_b.get_slice(threadIdx.x);
    Tensor tXsA = thread_load_a.partition_S(sA);  // (CPY,MMA_M,MMA_K,PIPE)
    Tensor tXrA = thread_load_a.retile_D(tCrA);   // (CPY,MMA_M,MMA_K)
    Tensor tXsB = thread_load_b.partition_S(sB);  // (CPY,MMA_N,MMA_K,PIPE)
    Tensor tXrB = thread_load_b.retile_D(tCrB);   // (CPY,MMA_N,MMA_K)
    constexpr int kBlocks = decltype(size<2>(tCrA))::value;
    static_assert(kBlocks >= 2, "the next k block is loaded while the current one is multiplied");

    auto load = [&](auto k_block, int pipe) {
      copy(load_a, tXsA(_, _, k_block, pipe), tXrA(_, _, k_block));
      copy(load_b, tXsB(_, _, k_block, pipe), tXrB(_, _, k_block));
    };

    fetch(0);
    store(0);
    __syncthreads();
    load(Int<0>{}, 0);

    CUTE_NO_UNROLL
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      int const pipe_read = k_tile % kStages;
      int const pipe_fill = (k_tile + 1) % kStages;
      bool const more = k_tile + 1 < k_tiles;
      for_each(make_int_sequence<kBlocks>{}, [&](auto k_block) {
        constexpr int kNext = (k_block + 1) % kBlocks;
        if constexpr (k_block == 0) {
          if (more) { fetch(k_tile + 1); }
        }
        if constexpr (kNext == 0) {
          if (more) {
            // The other stage was last read a whole tile ago, before the barrier that began this tile.
            store(pipe_fill);
            __syncthreads();
            load(Int<0>{}, pipe_fill);
          }
        } else {
          load(Int<kNext>{}, pipe_read);
        }
        gemm(mma, tCrA(_, _, k_block), tCrB(_, _, k_block), tCrC);
      });
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
