// SPDX-License-Identifier: MIT-0
// Mainloop for sm_80 and later: kStages k tiles of A and B are copied to shared memory by cp.async while the fragments of
// the next k block are loaded during the current mma. If a k tile has one k block, it is loaded after the mma of the previous k
// tile.
#pragma once

#include <cute/tensor.hpp>

#include "gmem_copy_async.cuh"
#include "mainloop_params.cuh"
#include "retile.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Fragments that are multiplied as they are loaded.
struct PlainProducts {
  /// What shared memory is loaded to, of the shape of `frag`, a fragment of the TiledMMA.
  template <class TensorR>
  CUTE_DEVICE static auto loaded(TensorR const& frag) {
    return cute::make_fragment_like(frag);
  }
  template <class TiledMma, class TensorRA, class TensorRB, class TensorRC>
  CUTE_DEVICE static void multiply(TiledMma const& mma,
                                   TensorRA const& tCrA,  // (MMA,MMA_M)
                                   TensorRB const& tCrB,  // (MMA,MMA_N)
                                   TensorRC& tCrC) {      // (MMA,MMA_M,MMA_N)
    cute::gemm(mma, tCrA, tCrB, tCrC);
  }

  /// Modifies the last k tile of A in shared memory; called by all threads before any of them loads fragments of it. k: K of
  /// the problem. k_left: elements of memory along K (bytes, if packed) in this last k tile.
  template <class Config, class TensorSA>
  CUTE_DEVICE static void finish_last_tile(TensorSA&&,  // (BLK_M,BLK_K)
                                           int, int) {}
};

/// Products: how loaded fragments are multiplied.
template <class Config, class Products = PlainProducts>
struct MainloopMultistage {
  using A = typename Config::A;
  using B = typename Config::B;
  using Params = MainloopParams<Config>;
  static constexpr int kStages = Config::kStages;
  static_assert(kStages >= 2, "one stage is read while another one is written");

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
    auto const gA = params.tiles_a(tile.m, tile.batch);  // (BLK_M,BLK_K,k)
    auto const gB = params.tiles_b(tile.n, tile.batch);  // (BLK_N,BLK_K,k)
    int const m_left = params.m - tile.m * A::kTileMn;   // rows of A from the tile's origin to the end
    int const n_left = params.n - tile.n * B::kTileMn;
    if (cute::size<2>(gA) == 0) { return; }
    if constexpr (kWide) {
      if (m_left >= A::kTileMn && n_left >= B::kTileMn) {
        loop<true, true>(gA, gB, tCrC, m_left, n_left, params.k, params.stored_k(), storage);
        return;
      }
    }
    loop<kWide, false>(gA, gB, tCrC, m_left, n_left, params.k, params.stored_k(), storage);
  }

 private:
  /// kInterior: all rows of the tile lie inside A and B, so only the last k tile needs predication.
  template <bool kWide, bool kInterior, class TensorGA, class TensorGB, class TensorRC>
  CUTE_DEVICE static void loop(TensorGA const& gA,  // (BLK_M,BLK_K,k)
                               TensorGB const& gB,  // (BLK_N,BLK_K,k)
                               TensorRC& tCrC,      // (MMA,MMA_M,MMA_N)
                               int m_left, int n_left, int k, int k_extent, SharedStorage& storage) {
    using namespace cute;
    int const k_tiles = size<2>(gA);
    Tensor sA = make_tensor(make_smem_ptr(storage.a.begin()), typename A::SmemLayout{});  // (BLK_M,BLK_K,PIPE)
    Tensor sB = make_tensor(make_smem_ptr(storage.b.begin()), typename B::SmemLayout{});  // (BLK_N,BLK_K,PIPE)

    // Copy: global -> shared memory.
    using CopyA = conditional_t<kWide, typename A::GmemCopyWide, typename A::GmemCopyNarrow>;
    using CopyB = conditional_t<kWide, typename B::GmemCopyWide, typename B::GmemCopyNarrow>;
    bool const copies_a = size(CopyA{}) == Config::kThreads || threadIdx.x < size(CopyA{});
    bool const copies_b = size(CopyB{}) == Config::kThreads || threadIdx.x < size(CopyB{});
    auto gmem_copy_a = CopyA{}.get_slice(threadIdx.x);
    auto gmem_copy_b = CopyB{}.get_slice(threadIdx.x);
    Tensor tAgA = gmem_copy_a.partition_S(gA);  // (CPY,CPY_M,CPY_K,k)
    Tensor tAsA = gmem_copy_a.partition_D(sA);  // (CPY,CPY_M,CPY_K,PIPE)
    Tensor tAcA = gmem_copy_a.partition_S(make_identity_tensor(Shape<Int<A::kTileMn>, Int<A::kTileK>>{}));  // (CPY,CPY_M,CPY_K)
    Tensor tBgB = gmem_copy_b.partition_S(gB);  // (CPY,CPY_N,CPY_K,k)
    Tensor tBsB = gmem_copy_b.partition_D(sB);  // (CPY,CPY_N,CPY_K,PIPE)
    Tensor tBcB = gmem_copy_b.partition_S(make_identity_tensor(Shape<Int<B::kTileMn>, Int<B::kTileK>>{}));  // (CPY,CPY_N,CPY_K)

    // K tiles are processed in the order last, 0, 1, 2, ...: the last one may be a residue; processed first, it needs no
    // test in the loop.
    auto copy_predicated = [&](int step, int pipe) {
      int const k_tile = step == 0 ? k_tiles - 1 : step - 1;
      int const k_left = k_extent - k_tile * A::kTileK;
      if (copies_a) { copy_tile_async<A>(tAgA(_, _, _, k_tile), tAcA, tAsA(_, _, _, pipe), m_left, k_left); }
      if (copies_b) { copy_tile_async<B>(tBgB(_, _, _, k_tile), tBcB, tBsB(_, _, _, pipe), n_left, k_left); }
    };
    auto copy_part = [&](int step, int pipe, auto part, auto parts) {
      bool const more = step < k_tiles;
      copy_part_async<part, parts>(tAgA(_, _, _, step - 1), tAsA(_, _, _, pipe), copies_a && more);
      copy_part_async<part, parts>(tBgB(_, _, _, step - 1), tBsB(_, _, _, pipe), copies_b && more);
    };

    // Fragments: shared memory -> registers.
    typename Config::TiledMma mma;
    auto thread_mma = mma.get_slice(threadIdx.x);
    Tensor tCrA = Products::loaded(thread_mma.partition_fragment_A(sA(_, _, 0)));  // (MMA,MMA_M,MMA_K)
    Tensor tCrB = Products::loaded(thread_mma.partition_fragment_B(sB(_, _, 0)));  // (MMA,MMA_N,MMA_K)
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

    copy_predicated(0, 0);
    cp_async_fence();
    CUTE_UNROLL
    for (int pipe = 1; pipe < kStages - 1; ++pipe) {
      if constexpr (kInterior) {
        copy_part(pipe, pipe, _0{}, _1{});
      } else {
        if (pipe < k_tiles) { copy_predicated(pipe, pipe); }
      }
      cp_async_fence();  // empty groups past the last k tile keep the count that cp_async_wait needs
    }
    int pipe_read = 0;
    int pipe_write = kStages - 1;
    auto commit_copies = [&] {
      cp_async_fence();
      pipe_write = pipe_write == kStages - 1 ? 0 : pipe_write + 1;
    };
    // All fragments of this k tile are in registers: once all warps are here, its stage may be overwritten.
    auto await_next_k_tile = [&] {
      cp_async_wait<kStages - 2>();
      __syncthreads();
      pipe_read = pipe_read == kStages - 1 ? 0 : pipe_read + 1;
    };
    auto multiply = [&](auto k_block) {
      for_each(make_int_sequence<kMmasPerBlock>{}, [&](auto i) {
        constexpr auto kMma = k_block * Int<kMmasPerBlock>{} + i;
        Products::multiply(mma, tCrA(_, _, kMma), tCrB(_, _, kMma), tCrC);
      });
    };

    cp_async_wait<kStages - 2>();
    __syncthreads();
    Products::template finish_last_tile<Config>(sA(_, _, 0), k, k_extent - (k_tiles - 1) * A::kTileK);
    load(Int<0>{}, pipe_read);

    CUTE_NO_UNROLL
    for (int step = 0; step < k_tiles; ++step) {
      int const step_copy = step + kStages - 1;
      if constexpr (kBlocks == 1) {
        // The stage to overwrite is that of the preceding k tile, whose fragments all warps loaded before the last barrier.
        if constexpr (kInterior) {
          copy_part(step_copy, pipe_write, _0{}, _1{});
        } else {
          if (step_copy < k_tiles) { copy_predicated(step_copy, pipe_write); }
        }
        commit_copies();
        multiply(_0{});  // before the next fragments take its registers
        await_next_k_tile();
        if (step + 1 < k_tiles) { load(_0{}, pipe_read); }
      } else {
        for_each(make_int_sequence<kBlocks>{}, [&](auto k_block) {
          constexpr int kNext = (k_block + 1) % kBlocks;
          if constexpr (kNext == 0) { await_next_k_tile(); }
          if (kNext != 0 || step + 1 < k_tiles) { load(Int<kNext>{}, pipe_read); }
          if constexpr (kInterior && kNext != 0) {
            // Spread over the k blocks before the barrier: issued at once, the copies would delay the mma behind them.
            copy_part(step_copy, pipe_write, k_block, Int<kBlocks - 1>{});
          }
          if constexpr (!kInterior && k_block == 0) {
            if (step_copy < k_tiles) { copy_predicated(step_copy, pipe_write); }
          }
          if constexpr (kNext == kBlocks - 1) { commit_copies(); }
          multiply(k_block);
        });
      }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
