// Main loop for sm_80 to sm_89 (and anything later that runs their instructions): kStages tiles of A and B travel
// through shared memory by cp.async while the fragments of the next k block are loaded during the current multiply.
#pragma once

#include <cute/tensor.hpp>

#include "fill_async.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct MainloopMultistage {
  using A = typename Config::A;
  using B = typename Config::B;
  static constexpr int kStages = Config::kStages;
  static_assert(kStages >= 2, "one stage is being read while another is being filled");

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
    if (cute::size<2>(gA) == 0) { return; }
    if constexpr (kWide) {
      if (m_left >= A::kTileMn && n_left >= B::kTileMn) {
        loop<true, true>(gA, gB, tCrC, m_left, n_left, k_extent, storage);
        return;
      }
    }
    loop<kWide, false>(gA, gB, tCrC, m_left, n_left, k_extent, storage);
  }

 private:
  /// kInterior: no row of this CTA's tiles lies outside A or B, so only the last tile of K needs bounds.
  template <bool kWide, bool kInterior, class TensorGA, class TensorGB, class TensorRC>
  CUTE_DEVICE static void loop(TensorGA const& gA,  // (BLK_M,BLK_K,k)
                               TensorGB const& gB,  // (BLK_N,BLK_K,k)
                               TensorRC& tCrC,      // (MMA,MMA_M,MMA_N)
                               int m_left, int n_left, int k_extent, SharedStorage& storage) {
    using namespace cute;
    int const k_tiles = size<2>(gA);
    Tensor sA = make_tensor(make_smem_ptr(storage.a.begin()), typename A::SmemLayout{});  // (BLK_M,BLK_K,PIPE)
    Tensor sB = make_tensor(make_smem_ptr(storage.b.begin()), typename B::SmemLayout{});  // (BLK_N,BLK_K,PIPE)

    // Fill: global -> shared memory.
    using FillA = conditional_t<kWide, typename A::FillWide, typename A::FillNarrow>;
    using FillB = conditional_t<kWide, typename B::FillWide, typename B::FillNarrow>;
    bool const fills_a = size(FillA{}) == Config::kThreads || threadIdx.x < size(FillA{});
    bool const fills_b = size(FillB{}) == Config::kThreads || threadIdx.x < size(FillB{});
    auto fill_a = FillA{}.get_slice(threadIdx.x);
    auto fill_b = FillB{}.get_slice(threadIdx.x);
    Tensor tAgA = fill_a.partition_S(gA);                                                              // (CPY,CPY_M,CPY_K,k)
    Tensor tAsA = fill_a.partition_D(sA);                                                              // (CPY,CPY_M,CPY_K,PIPE)
    Tensor tAcA = fill_a.partition_S(make_identity_tensor(Shape<Int<A::kTileMn>, Int<A::kTileK>>{}));  // (CPY,CPY_M,CPY_K)
    Tensor tBgB = fill_b.partition_S(gB);                                                              // (CPY,CPY_N,CPY_K,k)
    Tensor tBsB = fill_b.partition_D(sB);                                                              // (CPY,CPY_N,CPY_K,PIPE)
    Tensor tBcB = fill_b.partition_S(make_identity_tensor(Shape<Int<B::kTileMn>, Int<B::kTileK>>{}));  // (CPY,CPY_N,CPY_K)

    // Tiles of K go in the order last, 0, 1, 2, …: the last one may be ragged, and first it needs no test in the loop.
    auto fill_bounded = [&](int step, int pipe) {
      int const k_tile = step == 0 ? k_tiles - 1 : step - 1;
      int const k_left = k_extent - k_tile * A::kTileK;
      if (fills_a) { fill_tile_async<A>(tAgA(_, _, _, k_tile), tAcA, tAsA(_, _, _, pipe), m_left, k_left); }
      if (fills_b) { fill_tile_async<B>(tBgB(_, _, _, k_tile), tBcB, tBsB(_, _, _, pipe), n_left, k_left); }
    };
    auto fill_part = [&](int step, int pipe, auto part, auto parts) {
      bool const more = step < k_tiles;
      fill_part_async<part, parts>(tAgA(_, _, _, step - 1), tAsA(_, _, _, pipe), fills_a && more);
      fill_part_async<part, parts>(tBgB(_, _, _, step - 1), tBsB(_, _, _, pipe), fills_b && more);
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

    fill_bounded(0, 0);
    cp_async_fence();
    CUTE_UNROLL
    for (int pipe = 1; pipe < kStages - 1; ++pipe) {
      if constexpr (kInterior) {
        fill_part(pipe, pipe, _0{}, _1{});
      } else {
        if (pipe < k_tiles) { fill_bounded(pipe, pipe); }
      }
      cp_async_fence();  // Past the last tile an empty group keeps the count that cp_async_wait relies on.
    }
    int pipe_read = 0;
    int pipe_fill = kStages - 1;

    cp_async_wait<kStages - 2>();
    __syncthreads();
    load(Int<0>{}, pipe_read);

    CUTE_NO_UNROLL
    for (int step = 0; step < k_tiles; ++step) {
      int const step_fill = step + kStages - 1;
      for_each(make_int_sequence<kBlocks>{}, [&](auto k_block) {
        constexpr int kNext = (k_block + 1) % kBlocks;
        if constexpr (kNext == 0) {
          // All fragments of this tile are in registers: its stage may be filled anew once every warp has come here.
          cp_async_wait<kStages - 2>();
          __syncthreads();
          pipe_read = pipe_read == kStages - 1 ? 0 : pipe_read + 1;
        }
        if (kNext != 0 || step + 1 < k_tiles) { load(Int<kNext>{}, pipe_read); }
        if constexpr (kInterior && kNext != 0) {
          // Spread over the k blocks before the barrier: in one burst, copies would hold up the multiplies behind them.
          fill_part(step_fill, pipe_fill, k_block, Int<kBlocks - 1>{});
        }
        if constexpr (!kInterior && k_block == 0) {
          if (step_fill < k_tiles) { fill_bounded(step_fill, pipe_fill); }
        }
        if constexpr (kNext == kBlocks - 1) {
          cp_async_fence();
          pipe_fill = pipe_fill == kStages - 1 ? 0 : pipe_fill + 1;
        }
        gemm(mma, tCrA(_, _, k_block), tCrB(_, _, k_block), tCrC);
      });
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
