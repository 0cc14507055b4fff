// Mainloop for sm_90 with sparse wgmma: only the kept elements of A are stored, and metadata select their positions.
//
// TMA loads A's values, B and the metadata of a stage. The metadata are stored in the order in which the threads of a warpgroup
// hold them in registers (sparse_format.cuh). So a thread loads one word for each 64 rows and each block of columns, and the
// words of a warp are adjacent: there are no bank conflicts. If two instructions share the metadata of a register, the sparsity
// selector tells each of them which lanes to read, so no word is loaded twice.
#pragma once

#include "sm90_mainloop_ss.cuh"
#include "sparse_format.cuh"

namespace mmagen {
inline namespace v0_1 {

/// A k tile's metadata in shared memory: kTileK / kBlockK words of each thread for each 64 rows. CTAs that share a tile of A
/// load a part of the words each, in boxes of at most 256: (words of a box, 64 rows, box).
template <class Config>
struct MetadataTile {
  using A = typename Config::A;
  static constexpr int kShare = Config::kClusterN;
  static constexpr int kRowBlocks = Config::kTileM / kMetadataRows;
  static constexpr int kBlocks = Config::kTileK / A::kBlockK;         // along K
  static constexpr int kWords = kBlocks * kMetadataWords;             // of 64 rows
  static constexpr int kShareWords = kWords / kShare;                 // that one CTA loads of them
  static constexpr int kBox = kShareWords < 256 ? kShareWords : 256;  // words along a box: the most of a tensor map
  static constexpr int kBoxes = kShareWords / kBox;                   // of one CTA
  static constexpr int kStageWords = kRowBlocks * kWords;
  static constexpr int kBytes = kStageWords * int(sizeof(uint32_t));
  static_assert(Config::kTileM % kMetadataRows == 0 && Config::kTileK % A::kBlockK == 0, "a tile has whole blocks of metadata");
  static_assert(kMetadataPad % kBlocks == 0, "no tile ends behind the padding of the metadata");
  static_assert(kBox % 32 == 0 && kShareWords % kBox == 0, "the shares of the CTAs are whole boxes");

  /// The word of `thread` of a warpgroup for its 64 rows and a block of columns.
  CUTE_DEVICE static int place(int rows, int block, int thread) {
    int const word = block * kMetadataWords + thread;
    return (word / kBox * kRowBlocks + rows) * kBox + word % kBox;
  }
};

/// Loads of a stage with metadata.
template <class Config>
struct Sm90SparseLoad : Sm90TmaLoad<Config> {
  using Dense = Sm90TmaLoad<Config>;
  using Metadata = MetadataTile<Config>;
  using A = typename Config::A;
  using Pipeline = Sm90Pipeline<Config>;
  static constexpr bool kTakesEmptyK = true;

  struct alignas(128) Params {
    typename Dense::Params dense;
    CUtensorMap map_metadata;
    int batch_step_metadata;  // 0: one for the whole batch
  };

  struct SharedStorage : Dense::SharedStorage {
    alignas(1024) uint32_t metadata[Config::kStages * Metadata::kStageWords];
  };

  /// CUDA_ERROR_INVALID_VALUE where TMA cannot address A or B. With a K of 0 nothing is loaded.
  static CUresult make_params(Params& params, GemmArguments<Config> const& args) {
    if (args.k == 0) { return CUDA_SUCCESS; }
    CUresult const result = Dense::make_params(params.dense, args);
    if (result != CUDA_SUCCESS) { return result; }
    auto const& metadata = args.metadata_a;
    bool const shared = metadata.batch_stride == 0;
    params.batch_step_metadata = shared ? 0 : 1;
    int64_t const words = metadata_blocks<A::kBlockK>(args.k) * kMetadataWords;
    MatrixExtent const extent = {words, detail::ceil_div(args.m, kMetadataRows), shared ? 1 : args.batch, words,
                                 metadata.batch_stride};
    return encode_tensor_map<int32_t>(params.map_metadata, metadata.data, extent, Metadata::kBox, Metadata::kRowBlocks, 16);
  }

  CUTE_DEVICE static void prefetch_descriptors(Params const& params) {
    if (!params.dense.exists) { return; }
    Dense::prefetch_descriptors(params.dense);
    tma_prefetch_descriptor(&params.map_metadata);
  }

  CUTE_DEVICE static LoadedRows rows_of(Params const& params, TileCoord const& tile) {
    LoadedRows const rows = Dense::rows_of(params.dense, tile);
    return {rows.a, rows.b, rows.bytes + uint32_t(Metadata::kBytes)};
  }

  CUTE_DEVICE static void load_stage(Params const& params, SharedStorage& storage, Pipeline& pipeline, int stage, int k_tile,
                                     TileCoord const& tile, LoadedRows const& rows, ClusterCoord<Config> const& cluster) {
    Dense::load_stage(params.dense, storage, pipeline, stage, k_tile, tile, rows, cluster);
    for_each_box(params, k_tile, tile, cluster, [&](int box, int along, int across, int batch) {
      auto* const smem = storage.metadata + stage * Metadata::kStageWords + box * Metadata::kRowBlocks * Metadata::kBox;
      Barrier& full = pipeline.full[stage];
      if constexpr (Metadata::kShare == 1) {
        tma_load(&params.map_metadata, smem, full, along, across, batch, A::kHint);
      } else {
        tma_load_multicast(&params.map_metadata, smem, full, cluster.mask_a(), along, across, batch, A::kHint);
      }
    });
  }

  CUTE_DEVICE static void prefetch_stages(Params const& params, TileCoord const& tile, WorkTileInfo const& work,
                                          ClusterCoord<Config> const& cluster) {
    Dense::prefetch_stages(params.dense, tile, work, cluster);
    int const count = work.k_tiles < Config::kPrefetch ? work.k_tiles : Config::kPrefetch;
    for (int i = 0; i < count; ++i) {
      for_each_box(params, work.k_begin + i, tile, cluster, [&](int, int along, int across, int batch) {
        tma_prefetch_box(&params.map_metadata, along, across, batch);
      });
    }
  }

  CUTE_DEVICE static void load(Params const& params, typename Config::TileScheduler::Params const& scheduling,
                               SharedStorage& storage, Pipeline& pipeline) {
    load_all_stages<Config, Sm90SparseLoad>(params, scheduling, storage, pipeline);
  }

 private:
  /// Calls visit(box, along, across, batch) for every box of this CTA's share of a k tile's metadata.
  template <class Visit>
  CUTE_DEVICE static void for_each_box(Params const& params, int k_tile, TileCoord const& tile,
                                       ClusterCoord<Config> const& cluster, Visit const& visit) {
    CUTE_UNROLL
    for (int i = 0; i < Metadata::kBoxes; ++i) {
      int const box = cluster.n * Metadata::kBoxes + i;
      visit(box, k_tile * Metadata::kWords + box * Metadata::kBox, tile.m * Metadata::kRowBlocks,
            tile.batch * params.batch_step_metadata);
    }
  }
};

namespace detail {

/// One sparse wgmma. metadata: 32-bit, of which the operation's selector says which lanes hold them.
template <class Op, class TensorA, class TensorB, class TensorC>
CUTE_DEVICE void sparse_wgmma(TensorA const& a, TensorB const& b, TensorC&& c, uint32_t const& metadata,
                              cute::GMMA::ScaleOut const& scale) {
  using namespace cute;
  constexpr int kSums = extent<typename Op::CRegisters>::value;
  Tensor rA = recast<uint64_t>(a);
  Tensor rB = recast<uint64_t>(b);
  Tensor rC = recast<std::remove_extent_t<typename Op::CRegisters>>(c);
  CUTE_STATIC_ASSERT_V(size(rC) == Int<kSums>{});
  cute::detail::explode(Op::fma, rA, seq<0>{}, rB, seq<0>{}, rC, make_int_sequence<kSums>{}, &metadata, seq<0>{}, &scale,
                        seq<0>{});
}

}  // namespace detail

/// One thread's part of all stages, as Sm90StageMma.
///
/// wgmma reads the registers of the metadata while it runs, like those of an A in registers. ptxas takes this into account for
/// A, but considers a register of metadata free as soon as wgmma is issued (seen with CUDA 13.0 on an H200: docs/sparse.md). So
/// words are loaded into registers that no batch in flight reads, and keep() follows the wait for their batch.
template <class Config, class TensorA, class TensorB>
struct Sm90SparseStageMma {
  using Metadata = MetadataTile<Config>;
  using TiledMma = typename Config::TiledMma;
  static constexpr int kSelectors = Config::A::kSelectors;  // instructions that share the metadata of one register
  static constexpr int kAtomsM = decltype(cute::size<1>(std::declval<TensorA>()))::value;
  static constexpr int kAtomsN = decltype(cute::size<1>(std::declval<TensorB>()))::value;
  static constexpr int kAtomsK = decltype(cute::size<2>(std::declval<TensorB>()))::value;
  static_assert(kAtomsK == Metadata::kBlocks * kSelectors, "one word for each block of columns");

  /// This thread's metadata of one stage.
  struct Words {
    uint32_t of[kAtomsM][Metadata::kBlocks];
  };

  TiledMma mma;
  uint32_t const* metadata;  // of all stages
  TensorA tCrA;              // (MMA,MMA_M,MMA_K,PIPE)
  TensorB tCrB;              // (MMA,MMA_N,MMA_K,PIPE)
  int rows;                  // of the warpgroup's first 64 rows, among those of the tile
  int thread;                // within the warpgroup

  /// Loads the metadata of a stage. No batch in flight may read `words`.
  CUTE_DEVICE void load(Words& words, int stage) const {
    constexpr int kWarpgroupsM = decltype(cute::size<1>(typename TiledMma::ThrLayoutVMNK{}))::value;
    uint32_t const* const from = metadata + stage * Metadata::kStageWords;
    CUTE_UNROLL
    for (int m = 0; m < kAtomsM; ++m) {
      CUTE_UNROLL
      for (int block = 0; block < Metadata::kBlocks; ++block) {
        words.of[m][block] = from[Metadata::place(rows + m * kWarpgroupsM, block, thread)];
      }
    }
  }

  /// Issues the wgmmas of a stage as one batch. `first`: Zero if the first of them overwrites tCrC.
  template <class TensorRC>
  CUTE_DEVICE void issue(TensorRC& tCrC, int stage, Words const& words,
                         cute::GMMA::ScaleOut first = cute::GMMA::ScaleOut::One) const {
    using namespace cute;
    warpgroup_fence_operand(tCrC);
    warpgroup_arrive();
    GMMA::ScaleOut scale = first;
    for_each(make_int_sequence<kAtomsK>{}, [&](auto k_block) {
      using Op = std::conditional_t<k_block % kSelectors == 0, typename Config::MmaOp, typename Config::MmaOpOfOddBlocks>;
      CUTE_UNROLL
      for (int m = 0; m < kAtomsM; ++m) {
        CUTE_UNROLL
        for (int n = 0; n < kAtomsN; ++n) {
          detail::sparse_wgmma<Op>(tCrA(_, m, k_block, stage), tCrB(_, n, k_block, stage), tCrC(_, m, n),
                                   words.of[m][k_block / kSelectors], scale);
        }
      }
      scale = GMMA::ScaleOut::One;
    });
    warpgroup_commit_batch();
    warpgroup_fence_operand(tCrC);
  }

  /// Call after the wait for the batch that reads `words`, so that their registers are not reused earlier. This is a store,
  /// since ptxas moves arithmetic before the wait, but not a store; no thread executes it.
  CUTE_DEVICE void keep(Words const& words) const {
    uint32_t const address = smem_address(metadata);
    CUTE_UNROLL
    for (int m = 0; m < kAtomsM; ++m) {
      CUTE_UNROLL
      for (int block = 0; block < Metadata::kBlocks; ++block) {
        asm volatile(
            "{\n"
            ".reg .pred never;\n"
            "setp.eq.u32 never, %0, 0xffffffff;\n"
            "@never st.shared.b32 [%0], %1;\n"
            "}" ::"r"(address),
            "r"(words.of[m][block])
            : "memory");
      }
    }
  }
};

template <class Config>
struct Sm90MainloopSparse : Sm90SparseLoad<Config> {
  using typename Sm90SparseLoad<Config>::SharedStorage;
  static constexpr int kBatchesInFlight = 1;

  /// Sparse wgmma on one stage, for `thread` of the TiledMMA. A dense wgmma that reads as many bytes of A describes what is
  /// stored.
  CUTE_DEVICE static auto stage(SharedStorage& storage, int thread) {
    using namespace cute;
    typename Config::TiledMma mma;
    auto const of_a = make_tiled_mma(MMA_Atom<typename Config::MmaOpOfA>{}, typename Config::AtomsLayout{}).get_slice(thread);
    auto const of_b = mma.get_slice(thread);
    Tensor sA = stages_of<typename Config::A>(storage.a.begin());  // (BLK_M,BLK_K/2,PIPE)
    Tensor sB = stages_of<typename Config::B>(storage.b.begin());  // (BLK_N,BLK_K,PIPE)
    Tensor tCrA = of_a.make_fragment_A(of_a.partition_A(sA));      // (MMA,MMA_M,MMA_K,PIPE)
    Tensor tCrB = of_b.make_fragment_B(of_b.partition_B(sB));      // (MMA,MMA_N,MMA_K,PIPE)
    int const rows = int(get<1>(mma.get_thr_layout_vmnk().get_flat_coord(thread)));
    return Sm90SparseStageMma<Config, decltype(tCrA), decltype(tCrB)>{mma, storage.metadata, tCrA, tCrB, rows, thread % 128};
  }

  /// As Sm90MainloopSs::mma(). The loop is unrolled by two, so that the words of a stage are loaded into one set of registers
  /// while the batch that reads the other is in flight.
  template <class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma(SharedStorage& storage, Sm90Pipeline<Config>& pipeline, PipelineState<Config::kStages>& pipe,
                              int k_tiles, int thread,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              Release const& release, Issued const& issued) {
    using namespace cute;
    auto const stage_mma = stage(storage, thread);
    using Words = typename std::remove_const_t<decltype(stage_mma)>::Words;
    Words even, odd = {};
    int before = pipe.stage;
    pipeline.full[pipe.stage].wait(pipe.phase);
    stage_mma.load(even, pipe.stage);
    stage_mma.issue(tCrC, pipe.stage, even, GMMA::ScaleOut::Zero);
    ++pipe;
    auto const step = [&](Words& words, Words const& in_flight) {
      pipeline.full[pipe.stage].wait(pipe.phase);
      stage_mma.load(words, pipe.stage);
      stage_mma.issue(tCrC, pipe.stage, words);
      warpgroup_wait<1>();
      stage_mma.keep(in_flight);
      release(before);
      before = pipe.stage;
      ++pipe;
    };
    int i = 1;
    CUTE_NO_UNROLL
    for (; i + 1 < k_tiles; i += 2) {
      step(odd, even);
      step(even, odd);
    }
    if (i < k_tiles) { step(odd, even); }
    issued();
    warpgroup_wait<0>();
    warpgroup_fence_operand(tCrC);
    stage_mma.keep(even);
    stage_mma.keep(odd);
    release(before);
  }
};

}  // namespace v0_1
}  // namespace mmagen
