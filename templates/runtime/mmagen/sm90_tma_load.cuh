// The producer half of the sm_90 mainloops: one thread loads the k tiles of A and B into the ring of stages by TMA.
#pragma once

#include <algorithm>

#include "gemm_arguments.cuh"
#include "sm90_pipeline.cuh"
#include "sm90_tensor_map.cuh"
#include "sm90_tma.cuh"
#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// Lines of a TMA box. Where an operand has fewer rows than a tile, K is contiguous and one box loads the tile, the box is
/// shortened: the remaining rows of the stage keep old data, which contributes only to elements outside of D.
template <class Operand, int kShare>
int box_lines(int64_t across) {
  bool const full = !Operand::kContiguousK || Operand::kBoxes * kShare > 1 || across >= Operand::kBoxAcross;
  return full ? Operand::kBoxAcross : int(ceil_div(across, 8)) * 8;
}

/// Bytes of an operand that TMA writes to one stage of each CTA.
template <class Operand, int kShare>
uint32_t stage_bytes(int lines) {
  constexpr int kLineBytes = Operand::kLine * int(sizeof(typename Operand::Element));
  return uint32_t(kShare * Operand::kBoxes * Operand::kPanels * lines * kLineBytes);
}

/// Of a tile that reaches beyond its matrix, rows (of B: columns) are loaded in steps of so many: boxes of so few lines where K
/// is contiguous, or else panels.
template <class Operand>
constexpr int kRowStep = !Operand::kContiguousK          ? Operand::kLine
                         : Operand::kBoxAcross % 16 == 0 ? 16
                                                         : 8;

/// Bytes of one of these in a stage.
template <class Operand, int kShare>
constexpr int kRowBytes =
    int(sizeof(typename Operand::Element)) *
    (Operand::kContiguousK ? Operand::kLine * Operand::kPanels : Operand::kBoxAcross * Operand::kBoxes * kShare);

}  // namespace detail

/// How many rows of A and columns of B are loaded of a tile, and the bytes of a stage. What lies beyond the matrix is left out,
/// but for the rest of a step: TMA takes longer to fill a line with zeros than to load it (docs/performance.md). The rows that
/// are not loaded keep old data, which contributes only to elements outside of D.
struct LoadedRows {
  int a, b;
  uint32_t bytes;
};

/// The producer's whole run: all k tiles of all work tiles of this CTA. Called by its whole warp if the scheduler needs all
/// lanes; lane 0 loads. Loads: how a stage is loaded, see Sm90TmaLoad.
template <class Config, class Loads>
CUTE_DEVICE void load_all_stages(typename Loads::Params const& params, typename Config::TileScheduler::Params const& scheduling,
                                 typename Loads::SharedStorage& storage, Sm90Pipeline<Config>& pipeline) {
  using TileScheduler = typename Config::TileScheduler;
  ClusterCoord<Config> const cluster;
  PipelineState<Config::kStages> pipe;
  bool const loads = !TileScheduler::Params::kWholeWarp || threadIdx.x % 32 == 0;
  if constexpr (Config::kPrefetch > 0) {
    TileScheduler const first(scheduling, cluster);
    WorkTileInfo const work = first.work_tile(scheduling);
    Loads::prefetch_stages(params, cta_tile<Config>(first, scheduling, work, cluster), work, cluster);
  }
  wait_on_dependent_grids();
  TileScheduler scheduler(scheduling, cluster);
  int acquired = -1;  // the group whose tensor maps this thread may use
  for (; scheduler.is_valid(scheduling); scheduler.advance(scheduling)) {
    WorkTileInfo const work = scheduler.work_tile(scheduling);
    auto const tile = cta_tile<Config>(scheduler, scheduling, work, cluster);
    if constexpr (TileScheduler::Params::Coord::kOwnMatrices) {
      if (loads && tile.batch != acquired) {
        tile.acquire_inputs();
        acquired = tile.batch;
      }
    }
    LoadedRows const rows = Loads::rows_of(params, tile);
    CUTE_NO_UNROLL
    for (int i = 0; loads && i < work.k_tiles; ++i, ++pipe) {
      pipeline.empty[pipe.stage].wait(pipe.phase ^ 1);  // in the first round every stage is free
      Loads::load_stage(params, storage, pipeline, pipe.stage, work.k_begin + i, tile, rows, cluster);
    }
  }
  if constexpr (Config::kClusterM * Config::kClusterN > 1) {
    // Other CTAs of the cluster arrive at this CTA's barriers: it must not exit before the last of them has.
    CUTE_NO_UNROLL
    for (int i = 0; loads && i < Config::kStages; ++i, ++pipe) { pipeline.empty[pipe.stage].wait(pipe.phase ^ 1); }
  }
}

/// Loads of A and B for the mainloops, which derive from it.
template <class Config>
struct Sm90TmaLoad {
  using A = typename Config::A;
  using B = typename Config::B;
  using TileScheduler = typename Config::TileScheduler;
  using Pipeline = Sm90Pipeline<Config>;
  static constexpr bool kTakesEmptyK = false;  // whether the kernel also computes a K of 0
  static constexpr int kPartialSums = 0;       // of a thread, of a k tile, that are still to be added up

  // Of mainloops with scales (sm90_scales.cuh): whether they change along K, and whether a finished tile is multiplied by some.
  static constexpr bool kScalesK = false;
  static constexpr bool kScalesTile = false;
  // Of sm90_mainloop_mixed.cuh: whether mma() takes the work tile, and groups of warpgroups that take k tiles of a CTA tile in
  // turn.
  static constexpr bool kTakesTile = false;
  static constexpr int kPartsOfK = 1;
  struct Scales {};

  /// TMA reads the tensor maps from the parameter space. Their alignment depends on the version of CUDA.
  struct alignas(128) Params {
    CUtensorMap map_a, map_b;
    CUtensorMap edge_a, edge_b;      // with boxes of kRowStep lines
    uint32_t stage_bytes;            // that TMA writes to a stage of a whole tile
    int batch_step_a, batch_step_b;  // 0: one matrix for the whole batch
    int end_a, end_b;                // rows of A and columns of B; 0: every tile is loaded whole
    bool edges;                      // does a tile need short boxes?
  };

  /// The stages. TMA's 128-byte swizzle is a function of address bits: stages begin at multiples of 1024 bytes.
  struct SharedStorage {
    alignas(1024) cute::ArrayEngine<typename A::Element, cute::cosize_v<typename A::SmemLayout>> a;
    alignas(1024) cute::ArrayEngine<typename B::Element, cute::cosize_v<typename B::SmemLayout>> b;
  };

  /// CUDA_ERROR_INVALID_VALUE where TMA cannot address A or B. whole_a: all rows of a tile of A are loaded, since threads read
  /// them.
  static CUresult make_params(Params& params, GemmArguments<Config> const& args, bool whole_a = false) {
    bool const shared_a = args.batch_stride_a == 0;
    bool const shared_b = args.batch_stride_b == 0;
    int64_t const k_of_a = detail::stored_k<A>(args.k);
    MatrixExtent const a = {A::kContiguousK ? k_of_a : args.m, A::kContiguousK ? args.m : k_of_a, shared_a ? 1 : args.batch,
                            args.lda, args.batch_stride_a};
    int64_t const k_of_b = detail::stored_k<B>(args.k);
    MatrixExtent const b = {B::kContiguousK ? k_of_b : args.n, B::kContiguousK ? args.n : k_of_b, shared_b ? 1 : args.batch,
                            args.ldb, args.batch_stride_b};
    params.batch_step_a = shared_a ? 0 : 1;
    params.batch_step_b = shared_b ? 0 : 1;
    int const lines_a = whole_a ? A::kBoxAcross : detail::box_lines<A, Config::kClusterN>(a.across);
    int const lines_b = detail::box_lines<B, Config::kClusterM>(b.across);
    params.stage_bytes =
        detail::stage_bytes<A, Config::kClusterN>(lines_a) + detail::stage_bytes<B, Config::kClusterM>(lines_b);
    CUresult const result =
        encode_tensor_map<typename A::Element>(params.map_a, args.a, a, A::kLine, lines_a, A::kSwizzleBytes);
    if (result != CUDA_SUCCESS) { return result; }
    CUresult const result_b =
        encode_tensor_map<typename B::Element>(params.map_b, args.b, b, B::kLine, lines_b, B::kSwizzleBytes);
    if (result_b != CUDA_SUCCESS) { return result_b; }
    using Coord = typename TileScheduler::Params::Coord;
    params.end_a = Coord::kOwnMatrices || whole_a || lines_a < A::kBoxAcross ? 0 : int(args.m);
    params.end_b = Coord::kOwnMatrices || lines_b < B::kBoxAcross ? 0 : int(args.n);
    params.edge_a = params.map_a;
    params.edge_b = params.map_b;
    params.edges = ends_in_a_tile<A>(params.end_a) || ends_in_a_tile<B>(params.end_b);
    if (!params.edges) { return CUDA_SUCCESS; }
    CUresult const result_edge =
        encode_tensor_map<typename A::Element>(params.edge_a, args.a, a, A::kLine, edge_lines<A>(lines_a), A::kSwizzleBytes);
    if (result_edge != CUDA_SUCCESS) { return result_edge; }
    return encode_tensor_map<typename B::Element>(params.edge_b, args.b, b, B::kLine, edge_lines<B>(lines_b), B::kSwizzleBytes);
  }

  static Scales make_scales(GemmArguments<Config> const&) { return {}; }

  CUTE_DEVICE static void prefetch_descriptors(Params const& params) {
    tma_prefetch_descriptor(&params.map_a);
    tma_prefetch_descriptor(&params.map_b);
    if (params.edges) {
      tma_prefetch_descriptor(&params.edge_a);
      tma_prefetch_descriptor(&params.edge_b);
    }
  }

  /// What is loaded of the stages of an output tile.
  template <class Tile>
  CUTE_DEVICE static LoadedRows rows_of(Params const& params, Tile const& tile) {
    if constexpr (Tile::kOwnMatrices) {  // each group would need tensor maps of short boxes
      return {A::kTileMn, B::kTileMn, params.stage_bytes};
    } else {
      int const a = loaded_rows<A>(params.end_a, tile.end_m(params.end_a) - tile.first_m(A::kTileMn));
      int const b = loaded_rows<B>(params.end_b, tile.end_n(params.end_b) - tile.first_n(B::kTileMn));
      int const less = (A::kTileMn - a) * detail::kRowBytes<A, Config::kClusterN> +
                       (B::kTileMn - b) * detail::kRowBytes<B, Config::kClusterM>;
      return {a, b, params.stage_bytes - uint32_t(less)};
    }
  }

  /// Loads k tile `k_tile` of the output tile `tile` into a stage that is free in all CTAs it is multicast to. rows: of the
  /// tile.
  template <class Tile>
  CUTE_DEVICE static void load_stage(Params const& params, SharedStorage& storage, Pipeline& pipeline, int stage, int k_tile,
                                     Tile const& tile, LoadedRows const& rows, ClusterCoord<Config> const& cluster) {
    BoxCoord<A> const a(tile.first_m(A::kTileMn), k_tile, tile.batch_ab() * params.batch_step_a);
    BoxCoord<B> const b(tile.first_n(B::kTileMn), k_tile, tile.batch_ab() * params.batch_step_b);
    auto const& from = tile.inputs(params);
    Barrier& full = pipeline.full[stage];
    full.arrive_and_expect(rows.bytes);
    load_operand<A, Config::kClusterN>(&from.map_a, &params.edge_a, storage.a.begin() + stage * A::kTileMn * A::kTileK, full,
                                       cluster.mask_a(), cluster.n, rows.a, a);
    load_operand<B, Config::kClusterM>(&from.map_b, &params.edge_b, storage.b.begin() + stage * B::kTileMn * B::kTileK, full,
                                       cluster.mask_b(), cluster.m, rows.b, b);
  }

  /// Prefetches the first stages into L2 while the preceding kernel still runs.
  CUTE_DEVICE static void prefetch_stages(Params const& params, TileCoord const& tile, WorkTileInfo const& work,
                                          ClusterCoord<Config> const& cluster) {
    int const count = work.k_tiles < Config::kPrefetch ? work.k_tiles : Config::kPrefetch;
    LoadedRows const rows = rows_of(params, tile);
    for (int i = 0; i < count; ++i) {
      BoxCoord<A> const a(tile.first_m(A::kTileMn), work.k_begin + i, tile.batch * params.batch_step_a);
      BoxCoord<B> const b(tile.first_n(B::kTileMn), work.k_begin + i, tile.batch * params.batch_step_b);
      prefetch_operand<A>(&params.map_a, &params.edge_a, cluster.n, rows.a, a);
      prefetch_operand<B>(&params.map_b, &params.edge_b, cluster.m, rows.b, b);
    }
  }

  /// The producer's whole run. Called by its whole warp if the scheduler needs all lanes.
  CUTE_DEVICE static void load(Params const& params, typename TileScheduler::Params const& scheduling, SharedStorage& storage,
                               Pipeline& pipeline) {
    load_all_stages<Config, Sm90TmaLoad>(params, scheduling, storage, pipeline);
  }

 private:
  /// Where k tile `k_tile` of the rows (of B: columns of D) from `mn` on begins: along the contiguous mode, across it, and the
  /// batch.
  template <class Operand>
  struct BoxCoord {
    int along, across, batch;

    CUTE_DEVICE BoxCoord(int mn, int k_tile, int batch) : batch(batch) {
      int const k = k_tile * Operand::kTileK;
      along = Operand::kContiguousK ? k : mn;
      across = Operand::kContiguousK ? mn : k;
    }
  };

  /// Is a tile of an operand with K contiguous loaded in part? end: see Params. A group may end anywhere.
  template <class Operand>
  static bool ends_in_a_tile(int end) {
    constexpr int64_t kStep = detail::kRowStep<Operand>;
    return Operand::kContiguousK && end > 0 &&
           (TileScheduler::Params::Coord::kEndsInside || (end + kStep - 1) / kStep * kStep % Operand::kTileMn != 0);
  }

  /// Lines of the boxes of such tiles; `whole`: of the others.
  template <class Operand>
  static int edge_lines(int whole) {
    return Operand::kContiguousK ? std::min(detail::kRowStep<Operand>, whole) : whole;
  }

  /// Of the rows of a tile of which `left` lie in the matrix, if there are that many; end: see Params.
  template <class Operand>
  CUTE_DEVICE static int loaded_rows(int end, int left) {
    constexpr int kStep = detail::kRowStep<Operand>;
    if (end == 0 || left >= Operand::kTileMn) { return Operand::kTileMn; }
    int const steps = left <= 0 ? 0 : (left + kStep - 1) / kStep * kStep;
    return steps < Operand::kTileMn ? steps : Operand::kTileMn;
  }

  /// Calls visit(map, panel, line, along) for every box of this CTA's share of the `rows` of an operand tile that are loaded.
  /// CTAs that need the same tile load one share each, for all of them. In a whole tile a share is kBoxes boxes of kLine x
  /// kBoxAcross elements of each panel.
  template <class Operand, class Visit>
  CUTE_DEVICE static void for_each_box(CUtensorMap const* map, CUtensorMap const* edge, int share, int rows,
                                       Visit const& visit) {
    constexpr int kLines = Operand::kBoxAcross * Operand::kBoxes;  // of a share
    constexpr int kStep = detail::kRowStep<Operand>;
    if (Operand::kContiguousK && rows < Operand::kTileMn) {
      int const end = min(rows, (share + 1) * kLines);
      CUTE_NO_UNROLL
      for (int line = share * kLines; line < end; line += kStep) {
        CUTE_UNROLL
        for (int panel = 0; panel < Operand::kPanels; ++panel) { visit(edge, panel, line, panel * Operand::kLine); }
      }
      return;
    }
    CUTE_UNROLL
    for (int panel = 0; panel < Operand::kPanels; ++panel) {
      if (!Operand::kContiguousK && panel * kStep >= rows) { break; }
      CUTE_UNROLL
      for (int box = 0; box < Operand::kBoxes; ++box) {
        visit(map, panel, share * kLines + box * Operand::kBoxAcross, panel * Operand::kLine);
      }
    }
  }

  template <class Operand, int kShare>
  CUTE_DEVICE static void load_operand(CUtensorMap const* map, CUtensorMap const* edge, typename Operand::Element* stage,
                                       Barrier& full, uint16_t ctas, int share, int rows, BoxCoord<Operand> const& begin) {
    constexpr int kAcross = Operand::kBoxAcross * Operand::kBoxes * kShare;  // lines of a panel
    for_each_box<Operand>(map, edge, share, rows, [&](CUtensorMap const* of, int panel, int line, int along) {
      auto* const smem = stage + (panel * kAcross + line) * Operand::kLine;
      if constexpr (kShare == 1) {
        tma_load(of, smem, full, begin.along + along, begin.across + line, begin.batch, Operand::kHint);
      } else {
        tma_load_multicast(of, smem, full, ctas, begin.along + along, begin.across + line, begin.batch, Operand::kHint);
      }
    });
  }

  template <class Operand>
  CUTE_DEVICE static void prefetch_operand(CUtensorMap const* map, CUtensorMap const* edge, int share, int rows,
                                           BoxCoord<Operand> const& begin) {
    for_each_box<Operand>(map, edge, share, rows, [&](CUtensorMap const* of, int, int line, int along) {
      tma_prefetch_box(of, begin.along + along, begin.across + line, begin.batch);
    });
  }
};

}  // namespace v0_1
}  // namespace mmagen
