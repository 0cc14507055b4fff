// Mainloop for sm_80 and later with a sparse A (mma.sp): cp.async copies kStages k tiles of A's values, A's metadata and B to
// shared memory while the fragments of the next k block are loaded during the current mma.
//
// The metadata are stored in the order in which the threads of four warps hold them in registers (sparse_format.cuh): each
// thread loads one word for 16 rows and a block of columns, and the words of a warp are adjacent. If instructions share a word,
// the sparsity selector tells each of them which lanes to read.
#pragma once

#include <cute/tensor.hpp>

#include "gmem_copy_async.cuh"
#include "mainloop_params.cuh"
#include "retile.cuh"
#include "sparse_format.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// One mma.sp on registers: c += a * b.
template <class Config, int kSelector, class TensorA, class TensorB, class TensorC>
CUTE_DEVICE void sparse_mma(TensorA const& a, TensorB const& b, TensorC&& c, uint32_t const& metadata) {
  using namespace cute;
  Tensor rA = recast<uint32_t>(a);
  Tensor rB = recast<uint32_t>(b);
  Tensor rC = recast<typename Config::RegisterC>(c);
  CUTE_STATIC_ASSERT_V(size(rA) == Int<Config::kRegistersA>{});
  CUTE_STATIC_ASSERT_V(size(rB) == Int<Config::kRegistersB>{});
  CUTE_STATIC_ASSERT_V(size(rC) == Int<Config::kRegistersC>{});
  cute::detail::explode(Config::template MmaOpWith<kSelector>::fma, rC, make_int_sequence<Config::kRegistersC>{}, rA,
                        make_int_sequence<Config::kRegistersA>{}, rB, make_int_sequence<Config::kRegistersB>{}, &metadata,
                        seq<0>{});
}

}  // namespace detail

template <class Config>
struct MainloopSparseMultistage {
  using A = typename Config::A;
  using B = typename Config::B;
  static constexpr int kStages = Config::kStages;
  static constexpr int kRowBlocks = Config::kTileM / kMetadataRows;
  static constexpr int kBlocks = Config::kTileK / A::kBlockK;  // of metadata along K
  static constexpr int kRowWords = kBlocks * kMetadataWords;   // of 64 rows of a k tile
  static constexpr int kStageWords = kRowBlocks * kRowWords;
  static_assert(kStages >= 2, "one stage is read while another one is written");
  static_assert(Config::kTileM % kMetadataRows == 0 && Config::kTileK % A::kBlockK == 0, "a tile has whole blocks of metadata");
  static_assert(kMetadataPad % kBlocks == 0, "no tile ends behind the padding of the metadata");

  struct Params : MainloopParams<Config> {
    uint32_t const* metadata;
    int64_t batch_stride_metadata;
    int stored_k;         // elements of a row of A's values
    int last_row_block;   // of the metadata of a matrix
    int row_block_words;  // of 64 rows

    /// The values of the rows of one output tile, as a sequence of k tiles.
    CUTE_DEVICE auto tiles_of_values(int tile_m, int batch) const {
      using namespace cute;
      Tensor mA = make_tensor(make_gmem_ptr(this->a + batch * this->batch_stride_a), make_shape(this->m, stored_k),
                              A::gmem_stride(this->lda));
      return local_tile(mA, Shape<Int<A::kTileMn>, Int<A::kTileK>>{}, make_coord(tile_m, _));  // (BLK_M,BLK_K/2,k)
    }
  };

  struct SharedStorage {
    alignas(128) cute::ArrayEngine<typename A::Element, cute::cosize_v<typename A::SmemLayout>> a;
    alignas(128) cute::ArrayEngine<typename B::Element, cute::cosize_v<typename B::SmemLayout>> b;
    alignas(128) uint32_t metadata[kStages * kStageWords];
  };

  static Params make_params(GemmArguments<Config> const& args) {
    Params params{};
    static_cast<MainloopParams<Config>&>(params) = MainloopParams<Config>::of(args);
    params.metadata = static_cast<uint32_t const*>(args.metadata_a.data);
    params.batch_stride_metadata = args.metadata_a.batch_stride;
    params.stored_k = int(detail::stored_k<A>(args.k));
    params.last_row_block = int(detail::ceil_div(args.m, kMetadataRows)) - 1;
    params.row_block_words = int(metadata_blocks<A::kBlockK>(args.k)) * kMetadataWords;
    return params;
  }

  /// Accumulates the output tile over all of K. Leaves shared memory in use: synchronize before writing to it again.
  template <bool kWide, class TensorRC>
  CUTE_DEVICE static void run(Params const& params, TileCoord const& tile,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              SharedStorage& storage) {
    if (params.k == 0) { return; }
    int const m_left = params.m - tile.m * A::kTileMn;  // rows of A from the tile's origin to the end
    int const n_left = params.n - tile.n * B::kTileMn;
    if constexpr (kWide) {
      if (m_left >= A::kTileMn && n_left >= B::kTileMn) {
        loop<true, true>(params, tile, tCrC, m_left, n_left, storage);
        return;
      }
    }
    loop<kWide, false>(params, tile, tCrC, m_left, n_left, storage);
  }

 private:
  static constexpr int kAtomRows = 16;
  static constexpr int kRowBlockVectors = kRowWords / 4;  // of 16 bytes

  /// Copies the metadata of a k tile. Rows beyond the last block of the matrix get that block again: metadata must be legal
  /// even if all the values that they select from are zeros.
  CUTE_DEVICE static void copy_metadata(Params const& params, TileCoord const& tile, int k_tile, uint32_t* stage) {
    constexpr int kVectors = kRowBlocks * kRowBlockVectors;
    CUTE_UNROLL
    for (int i = 0; i < (kVectors + Config::kThreads - 1) / Config::kThreads; ++i) {
      int const vector = int(threadIdx.x) + i * Config::kThreads;
      if (kVectors % Config::kThreads != 0 && vector >= kVectors) { return; }
      int const rows = cute::min(tile.m * kRowBlocks + vector / kRowBlockVectors, params.last_row_block);
      uint32_t const* const from = params.metadata + tile.batch * params.batch_stride_metadata +
                                   int64_t(rows) * params.row_block_words + k_tile * kRowWords;
      cp_async_16_if(stage + vector * 4, from + vector % kRowBlockVectors * 4, true);
    }
  }

  /// kInterior: all rows of the tile lie inside A and B, so only the last k tile needs predication.
  template <bool kWide, bool kInterior, class TensorRC>
  CUTE_DEVICE static void loop(Params const& params, TileCoord const& tile,
                               TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                               int m_left, int n_left, SharedStorage& storage) {
    using namespace cute;
    auto const gA = params.tiles_of_values(tile.m, tile.batch);                           // (BLK_M,BLK_K/2,k)
    auto const gB = params.tiles_b(tile.n, tile.batch);                                   // (BLK_N,BLK_K,k)
    Tensor sA = make_tensor(make_smem_ptr(storage.a.begin()), typename A::SmemLayout{});  // (BLK_M,BLK_K/2,PIPE)
    Tensor sB = make_tensor(make_smem_ptr(storage.b.begin()), typename B::SmemLayout{});  // (BLK_N,BLK_K,PIPE)
    int const k_tiles = size<2>(gB);

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
    auto copy_predicated = [&](int k_tile, int pipe) {
      if (copies_a) {
        copy_tile_async<A>(tAgA(_, _, _, k_tile), tAcA, tAsA(_, _, _, pipe), m_left, params.stored_k - k_tile * A::kTileK);
      }
      if (copies_b) {
        copy_tile_async<B>(tBgB(_, _, _, k_tile), tBcB, tBsB(_, _, _, pipe), n_left, params.k - k_tile * B::kTileK);
      }
      copy_metadata(params, tile, k_tile, storage.metadata + pipe * kStageWords);
    };
    auto copy_next = [&](int step, int pipe) {
      if (step < k_tiles) {
        if constexpr (kInterior) {
          copy_part_async<0, 1>(tAgA(_, _, _, step - 1), tAsA(_, _, _, pipe), copies_a);
          copy_part_async<0, 1>(tBgB(_, _, _, step - 1), tBsB(_, _, _, pipe), copies_b);
          copy_metadata(params, tile, step - 1, storage.metadata + pipe * kStageWords);
        } else {
          copy_predicated(step - 1, pipe);
        }
      }
      cp_async_fence();  // empty groups past the last k tile keep the count that cp_async_wait needs
    };

    // Fragments: shared memory -> registers.
    typename Config::TiledMma mma;
    typename Config::TiledMmaOfA mma_of_a;
    auto thread_mma = mma.get_slice(threadIdx.x);
    Tensor tCrA = mma_of_a.get_slice(threadIdx.x).partition_fragment_A(sA(_, _, 0));  // (MMA,MMA_M,MMA_K)
    Tensor tCrB = thread_mma.partition_fragment_B(sB(_, _, 0));                       // (MMA,MMA_N,MMA_K)
    auto load_a = make_tiled_copy_A(typename A::SmemCopy{}, mma_of_a);
    auto load_b = make_tiled_copy_B(typename B::SmemCopy{}, mma);
    auto thread_load_a = load_a.get_slice(threadIdx.x);
    auto thread_load_b = load_b.get_slice(threadIdx.x);
    Tensor tXsA = thread_load_a.partition_S(sA);  // (CPY,CPY_M,CPY_K,PIPE)
    Tensor tXrA = retile(load_a, tXsA, tCrA);     // (CPY,CPY_M,CPY_K)
    Tensor tXsB = thread_load_b.partition_S(sB);  // (CPY,CPY_N,CPY_K,PIPE)
    Tensor tXrB = retile(load_b, tXsB, tCrB);     // (CPY,CPY_N,CPY_K)
    constexpr int kMmasM = decltype(size<1>(tCrA))::value;
    constexpr int kMmasN = decltype(size<1>(tCrB))::value;
    constexpr int kMmasK = decltype(size<2>(tCrB))::value;
    static_assert(decltype(size<2>(tCrA))::value == kMmasK && decltype(size<2>(tXrA))::value == kMmasK &&
                      decltype(size<2>(tXrB))::value == kMmasK,
                  "a k block is one mma");
    static_assert(kMmasK == kBlocks * A::kSelectors && kMmasK >= 2, "a word of metadata for each block of columns");
    auto load = [&](auto k_block, int pipe) {
      copy(load_a, tXsA(_, _, k_block, pipe), tXrA(_, _, k_block));
      copy(load_b, tXsB(_, _, k_block, pipe), tXrB(_, _, k_block));
    };

    // Metadata: shared memory -> registers.
    struct Words {
      uint32_t of[kMmasM][kBlocks];
    };
    Tensor tCcC = thread_mma.partition_C(make_identity_tensor(Shape<Int<Config::kTileM>, Int<Config::kTileN>>{}));
    int const lane = int(threadIdx.x) % 32;
    auto load_words = [&](Words& words, int pipe) {
      CUTE_UNROLL
      for (int m = 0; m < kMmasM; ++m) {
        int const atom = int(get<0>(tCcC(0, m, 0))) / kAtomRows;  // of 16 rows, within the tile
        constexpr int kAtoms = kMetadataRows / kAtomRows;
        uint32_t const* const from =
            storage.metadata + pipe * kStageWords + atom / kAtoms * kRowWords + atom % kAtoms * 32 + lane;
        CUTE_UNROLL
        for (int block = 0; block < kBlocks; ++block) { words.of[m][block] = from[block * kMetadataWords]; }
      }
    };
    auto multiply = [&](auto k_block, Words const& words) {
      constexpr int kBlock = k_block / A::kSelectors;
      CUTE_UNROLL
      for (int m = 0; m < kMmasM; ++m) {
        CUTE_UNROLL
        for (int i = 0; i < kMmasN; ++i) {
          int const n = m % 2 == 0 ? i : kMmasN - 1 - i;  // neighbours share a fragment
          detail::sparse_mma<Config, k_block % A::kSelectors>(tCrA(_, m, k_block), tCrB(_, n, k_block), tCrC(_, m, n),
                                                              words.of[m][kBlock]);
        }
      }
    };

    copy_predicated(k_tiles - 1, 0);
    cp_async_fence();
    CUTE_UNROLL
    for (int pipe = 1; pipe < kStages - 1; ++pipe) { copy_next(pipe, pipe); }
    int pipe_read = 0;
    int pipe_write = kStages - 1;
    cp_async_wait<kStages - 2>();
    __syncthreads();
    Words words;
    load_words(words, pipe_read);
    load(Int<0>{}, pipe_read);

    CUTE_NO_UNROLL
    for (int step = 0; step < k_tiles; ++step) {
      for_each(make_int_sequence<kMmasK>{}, [&](auto k_block) {
        constexpr int kNext = (k_block + 1) % kMmasK;
        if constexpr (kNext != 0) {
          load(Int<kNext>{}, pipe_read);
          if constexpr (k_block == 0) {
            copy_next(step + kStages - 1, pipe_write);
            pipe_write = pipe_write == kStages - 1 ? 0 : pipe_write + 1;
          }
          multiply(k_block, words);
        } else {
          // All fragments of this k tile are in registers: once all warps are here, its stage may be overwritten.
          cp_async_wait<kStages - 2>();
          __syncthreads();
          pipe_read = pipe_read == kStages - 1 ? 0 : pipe_read + 1;
          Words next = words;
          if (step + 1 < k_tiles) {
            load(Int<0>{}, pipe_read);
            load_words(next, pipe_read);
          }
          multiply(k_block, words);
          words = next;
        }
      });
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
