// Mainloop for devices before sm_80, which have no cp.async: the next k tile of A and B is loaded to registers during the mma
// of the current one, then written to the other of two stages of shared memory.
#pragma once

#include <cute/tensor.hpp>

#include "gmem_copy.cuh"
#include "mainloop_params.cuh"
#include "retile.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct MainloopRegisterStaged {
  using A = typename Config::A;
  using B = typename Config::B;
  using Params = MainloopParams<Config>;
  static constexpr int kStages = Config::kStages;
  static_assert(kStages == 2, "one stage is read while the other is written from registers");

  struct SharedStorage {
    alignas(128) cute::ArrayEngine<typename A::Element, cute::cosize_v<typename A::SmemLayout>> a;
    alignas(128) cute::ArrayEngine<typename B::Element, cute::cosize_v<typename B::SmemLayout>> b;
  };

  static Params make_params(GemmArguments<Config> const& args) { return Params::of(args); }

  /// Accumulates the output tile over all of K. Leaves shared memory in use: synchronize before writing to it again.
  template <bool kWide, class TensorRC>
  CUTE_DEVICE static void run(Params const& params, TileCoord const& tile,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              SharedStorage& storage) {
    using namespace cute;
    auto const gA = params.tiles_a(tile.m, tile.batch);  // (BLK_M,BLK_K,k)
    auto const gB = params.tiles_b(tile.n, tile.batch);  // (BLK_N,BLK_K,k)
    int const m_left = params.m - tile.m * A::kTileMn;   // rows of A from the tile's origin to the end
    int const n_left = params.n - tile.n * B::kTileMn;
    int const k_tiles = size<2>(gA);
    if (k_tiles == 0) { return; }

    Tensor sA = make_tensor(make_smem_ptr(storage.a.begin()), typename A::SmemLayout{});  // (BLK_M,BLK_K,PIPE)
    Tensor sB = make_tensor(make_smem_ptr(storage.b.begin()), typename B::SmemLayout{});  // (BLK_N,BLK_K,PIPE)

    // Copy: global memory -> registers -> shared memory.
    using CopyA = conditional_t<kWide, typename A::GmemCopyWide, typename A::GmemCopyNarrow>;
    using CopyB = conditional_t<kWide, typename B::GmemCopyWide, typename B::GmemCopyNarrow>;
    bool const copies_a = size(CopyA{}) == Config::kThreads || threadIdx.x < size(CopyA{});
    bool const copies_b = size(CopyB{}) == Config::kThreads || threadIdx.x < size(CopyB{});
    auto gmem_copy_a = CopyA{}.get_slice(threadIdx.x);
    auto gmem_copy_b = CopyB{}.get_slice(threadIdx.x);
    Tensor tAgA = gmem_copy_a.partition_S(gA);  // (CPY,CPY_M,CPY_K,k)
    Tensor tAsA = gmem_copy_a.partition_D(sA);  // (CPY,CPY_M,CPY_K,PIPE)
    Tensor tAcA = gmem_copy_a.partition_S(make_identity_tensor(Shape<Int<A::kTileMn>, Int<A::kTileK>>{}));  // (CPY,CPY_M,CPY_K)
    Tensor tArA = make_fragment_like<typename A::Element>(tAsA(_, _, _, 0));                                // (CPY,CPY_M,CPY_K)
    Tensor tBgB = gmem_copy_b.partition_S(gB);  // (CPY,CPY_N,CPY_K,k)
    Tensor tBsB = gmem_copy_b.partition_D(sB);  // (CPY,CPY_N,CPY_K,PIPE)
    Tensor tBcB = gmem_copy_b.partition_S(make_identity_tensor(Shape<Int<B::kTileMn>, Int<B::kTileK>>{}));  // (CPY,CPY_N,CPY_K)
    Tensor tBrB = make_fragment_like<typename B::Element>(tBsB(_, _, _, 0));                                // (CPY,CPY_N,CPY_K)

    auto fetch = [&](int k_tile) {
      int const k_left = params.k - k_tile * A::kTileK;
      if (copies_a) { copy_tile<A>(tAgA(_, _, _, k_tile), tAcA, tArA, m_left, k_left); }
      if (copies_b) { copy_tile<B>(tBgB(_, _, _, k_tile), tBcB, tBrB, n_left, k_left); }
    };
    auto store = [&](int pipe) {
      if (copies_a) { copy(tArA, tAsA(_, _, _, pipe)); }
      if (copies_b) { copy(tBrB, tBsB(_, _, _, pipe)); }
    };

    // Fragments: shared memory -> registers.
    typename Config::TiledMma mma;
    auto thread_mma = mma.get_slice(threadIdx.x);
    Tensor tCrA = thread_mma.partition_fragment_A(sA(_, _, 0));  // (MMA,MMA_M,MMA_K)
    Tensor tCrB = thread_mma.partition_fragment_B(sB(_, _, 0));  // (MMA,MMA_N,MMA_K)
    auto load_a = make_tiled_copy_A(typename A::SmemCopy{}, mma);
    auto load_b = make_tiled_copy_B(typename B::SmemCopy{}, mma);
    auto thread_load_a = load_a.get_slice(threadIdx.x);
    auto thread_load_b = load_b.get_slice(threadIdx.x);
    Tensor tXsA = thread_load_a.partition_S(sA);  // (CPY,CPY_M,CPY_K,PIPE)
    Tensor tXrA = retile(load_a, tXsA, tCrA);     // (CPY,CPY_M,CPY_K)
    Tensor tXsB = thread_load_b.partition_S(sB);  // (CPY,CPY_N,CPY_K,PIPE)
    Tensor tXrB = retile(load_b, tXsB, tCrB);     // (CPY,CPY_N,CPY_K)
    // A k block is what the TiledMMA covers along K, and what a copy moves at once: several mma if the permutation extends K.
    constexpr int kBlocks = decltype(size<2>(tXrA))::value;
    constexpr int kMmasPerBlock = decltype(size<2>(tCrA))::value / kBlocks;

    auto load = [&](auto k_block, int pipe) {
      copy(load_a, tXsA(_, _, k_block, pipe), tXrA(_, _, k_block));
      copy(load_b, tXsB(_, _, k_block, pipe), tXrB(_, _, k_block));
    };

    auto multiply = [&](auto k_block) {
      for_each(make_int_sequence<kMmasPerBlock>{}, [&](auto i) {
        constexpr auto kMma = k_block * Int<kMmasPerBlock>{} + i;
        gemm(mma, tCrA(_, _, kMma), tCrB(_, _, kMma), tCrC);
      });
    };

    fetch(0);
    store(0);
    __syncthreads();
    load(Int<0>{}, 0);

    CUTE_NO_UNROLL
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      int const pipe_read = k_tile % kStages;
      int const pipe_write = (k_tile + 1) % kStages;
      bool const more = k_tile + 1 < k_tiles;
      for_each(make_int_sequence<kBlocks>{}, [&](auto k_block) {
        constexpr int kNext = (k_block + 1) % kBlocks;
        if constexpr (k_block == 0) {
          if (more) { fetch(k_tile + 1); }
        }
        if constexpr (kBlocks == 1) { multiply(k_block); }  // before the next fragments take its registers
        if constexpr (kNext == 0) {
          if (more) {
            // The other stage was last read during the preceding k tile, before the barrier that ended it.
            store(pipe_write);
            __syncthreads();
            load(Int<0>{}, pipe_write);
          }
        } else {
          load(Int<kNext>{}, pipe_read);
        }
        if constexpr (kBlocks > 1) { multiply(k_block); }
      });
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
