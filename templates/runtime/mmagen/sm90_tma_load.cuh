// The producer half of the sm_90 mainloops: one thread loads the k tiles of A and B into the ring of stages by TMA.
#pragma once

#include <limits>

#include "gemm_arguments.cuh"
#include "sm90_pipeline.cuh"
#include "sm90_stages.cuh"
#include "sm90_tensor_map.cuh"
#include "sm90_tma.cuh"
#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

/// How many rows of A and columns of B are loaded of a tile, and the bytes of a stage. Rows beyond the matrix are not loaded,
/// nor boxes beyond a group that one row of cluster tiles covers, except that a panel of an operand with M or N contiguous is
/// loaded whole; columns behind K are filled with zeros by TMA. Filling a line takes longer than loading it
/// (docs/performance.md). The rows that are not loaded hold whatever shared memory held before, NaNs included; they affect only
/// sums of elements outside D. In clusters, a share without such rows is loaded as one line of zeros, whose bytes are counted.
struct LoadedRows {
  int a, b;
  uint32_t bytes;
};

/// The producer's whole run: all k tiles of all work tiles of this CTA. Called by its whole warp if the scheduler needs all
/// lanes, else by one elected lane. Loads: how a stage is loaded, see Sm90TmaLoad.
template <class Config, class Loads>
CUTE_DEVICE void load_all_stages(typename Loads::Params const& params, typename Config::TileScheduler::Params const& scheduling,
                                 typename Loads::SharedStorage& storage, Sm90Pipeline<Config>& pipeline) {
  using TileScheduler = typename Config::TileScheduler;
  constexpr bool kWholeWarp = TileScheduler::Params::kWholeWarp;
  auto const cluster = cluster_coord<Config>(params);
  auto pipe = first_stage<Config>(params);  // of the lane that loads
  if constexpr (Config::kPrefetch > 0) {
    static_assert(!kWholeWarp, "one lane prefetches");
    TileScheduler const first(scheduling, cluster);
    WorkTileInfo const work = first.work_tile(scheduling);
    Loads::prefetch_stages(params, cta_tile<Config>(first, scheduling, work, cluster), work, cluster);
  }
  wait_on_dependent_grids();
  TileScheduler scheduler(scheduling, cluster);
  int acquired = -1;  // the group whose tensor maps that lane may use
  for (; scheduler.is_valid(scheduling); scheduler.advance(scheduling)) {
    WorkTileInfo const work = scheduler.work_tile(scheduling);
    auto const tile = cta_tile<Config>(scheduler, scheduling, work, cluster);
    auto const load_tile = [&] {
      if constexpr (TileScheduler::Params::Coord::kOwnMatrices) {
        if (tile.batch != acquired) {
          tile.acquire_inputs();
          acquired = tile.batch;
        }
      }
      LoadedRows const rows = Loads::rows_of(params, tile);
      auto const each_k_tile = [&](auto const& load_stage) {
        CUTE_NO_UNROLL
        for (int i = 0; i < work.k_tiles; ++i, ++pipe) {
          pipeline.empty[pipe.stage].wait(pipe.phase ^ 1);  // in the first round every stage is free
          load_stage(pipe.stage, work.k_begin + i);
        }
      };
      if constexpr (Config::kClusterAtLaunch) {
        Loads::load_own_boxes(params, storage, pipeline, tile, rows, cluster, each_k_tile);
      } else {
        each_k_tile(
            [&](int stage, int k_tile) { Loads::load_stage(params, storage, pipeline, stage, k_tile, tile, rows, cluster); });
      }
    };
    if constexpr (kWholeWarp) {
      if (elect_one()) { load_tile(); }
      __syncwarp();
    } else {
      load_tile();
    }
  }
  if (cluster.shape().ctas() > 1) {
    // Other CTAs of the cluster arrive at this CTA's barriers: it must not exit before the last of them has.
    auto const wait_for_all = [&] {
      CUTE_NO_UNROLL
      for (int i = 0; i < pipe.stages(); ++i, ++pipe) { pipeline.empty[pipe.stage].wait(pipe.phase ^ 1); }
    };
    if constexpr (kWholeWarp) {
      if (elect_one()) { wait_for_all(); }
    } else {
      wait_for_all();
    }
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
    CUtensorMap line;                // a box of one line, for empty shares
    CUtensorMap edge_a, edge_b;      // for the last, partial box of an operand with K contiguous; else copies of map_a, map_b
    int batch_step_a, batch_step_b;  // 0: one matrix for the whole batch
    int end_a, end_b;                // rows of A and columns of B from here on are not loaded; the largest int: all are
    bool edges;                      // does a tile need edge_a or edge_b?
    bool exists;                     // false: K is 0, there are no tensor maps
    bool evict_first;                // of B of a group that one row of cluster tiles covers; of A with one column of them?
    // With kClusterAtLaunch: the shape of the clusters, and the lines of a box.
    ClusterShape cluster;
    int box_a, box_b;
    int tile_n, stages;  // with kTileNAtLaunch: columns of a tile that are computed, and the number of stages
  };

  using SharedStorage = Sm90Stages<Config>;

  /// CUDA_ERROR_INVALID_VALUE where TMA cannot address A or B. whole_a: all rows of a tile of A are loaded, for mainloops whose
  /// threads compute with what they read of it.
  static CUresult make_params(Params& params, GemmArguments<Config> const& args, bool whole_a = false) {
    params.box_a = A::kBoxAcross;
    params.box_b = B::kBoxAcross;
    return encode(params, args, whole_a);
  }

  /// The same with kClusterAtLaunch: a box is the share that one CTA loads of a panel.
  static CUresult make_params(Params& params, GemmArguments<Config> const& args, ClusterShape cluster, int stages) {
    static_assert(!Config::kTileNAtLaunch || B::kContiguousK, "the lines of a panel are columns of the tile");
    params.cluster = cluster;
    params.tile_n = cluster.tile_n;
    params.stages = stages;
    params.box_a = kLines<A> / cluster.n;
    params.box_b = (Config::kTileNAtLaunch ? cluster.tile_n : kLines<B>) / cluster.m;
    return encode(params, args, false);
  }

  static Scales make_scales(GemmArguments<Config> const&) { return {}; }

  CUTE_DEVICE static void prefetch_descriptors(Params const& params) {
    tma_prefetch_descriptor(&params.map_a);
    tma_prefetch_descriptor(&params.map_b);
    if (cluster_shape<Config>(params).ctas() > 1) { tma_prefetch_descriptor(&params.line); }
    if (params.edges) {
      tma_prefetch_descriptor(&params.edge_a);
      tma_prefetch_descriptor(&params.edge_b);
    }
  }

  /// The rows that are loaded for the stages of an output tile.
  template <class Tile>
  CUTE_DEVICE static LoadedRows rows_of(Params const& params, Tile const& tile) {
    int const tile_n = launched_tile_n<Config>(params);
    int a = loaded_rows<A>(params.end_a - tile.first_m(A::kTileMn), A::kTileMn);
    int b = loaded_rows<B>(params.end_b - tile.first_n(tile_n), tile_n);
    // Tiles of larger groups are loaded whole; Sm90Cooperative::skip_without_rows() has the reason.
    if constexpr (Tile::kRowsOfGroups) {
      if (is_one_row_of_tiles(tile)) {
        a = loaded_rows<A>(tile.rows_of_group() - tile.m * A::kTileMn, A::kTileMn, params.box_a);
      }
    } else if constexpr (Tile::kColumnsOfGroups) {
      if (is_one_column_of_tiles(tile)) {
        b = loaded_rows<B>(tile.columns_of_group() - tile.n * B::kTileMn, B::kTileMn, params.box_b);
      }
    }
    constexpr int kRowBytesA = A::kTileK * int(sizeof(typename A::Element));
    constexpr int kRowBytesB = B::kTileK * int(sizeof(typename B::Element));
    ClusterShape const cluster = cluster_shape<Config>(params);
    int const empty =
        empty_shares(cluster.n, Share<A>(0, params.box_a), a) + empty_shares(cluster.m, Share<B>(0, params.box_b), b);
    return {a, b, uint32_t(a * kRowBytesA + b * kRowBytesB) + uint32_t(empty) * kLineBytes};
  }

  /// Loads k tile `k_tile` of the output tile `tile` into a stage that is free in all CTAs it is multicast to. rows: of the
  /// tile.
  template <class Tile>
  CUTE_DEVICE static void load_stage(Params const& params, SharedStorage& storage, Pipeline& pipeline, int stage, int k_tile,
                                     Tile const& tile, LoadedRows const& rows, ClusterCoord<Config> const& cluster) {
    BoxCoord<A> const a(tile.first_m(A::kTileMn), k_tile, tile.batch_ab() * params.batch_step_a);
    BoxCoord<B> const b(tile.first_n(B::kTileMn), k_tile, tile.batch_ab() * params.batch_step_b);
    CacheHint const hint_a = hint_of<A>(params.evict_first && is_one_column_of_tiles(tile));
    CacheHint const hint_b = hint_of<B>(params.evict_first && is_one_row_of_tiles(tile));
    auto const& from = tile.inputs(params);
    Barrier& full = pipeline.full[stage];
    full.arrive_and_expect(rows.bytes);
    load_operand<A, Config::kClusterN>(params, &from.map_a, &params.edge_a, storage.stage_a(stage), full, cluster.mask_a(),
                                       Share<A>(cluster.n), rows.a, a, hint_a);
    load_operand<B, Config::kClusterM>(params, &from.map_b, &params.edge_b, storage.stage_b(params, stage), full,
                                       cluster.mask_b(), Share<B>(cluster.m), rows.b, b, hint_b);
  }

  /// Loads all k tiles of an output tile, with kClusterAtLaunch. Small tiles are loaded only as fast as this thread issues TMA
  /// instructions. So whatever does not change from one k tile to the next is computed once, and each combination of operands
  /// that are multicast has a loop of its own, without a branch on it. each_k_tile: calls its argument with every stage and its
  /// k tile, once the stage is free.
  template <class EachKTile>
  CUTE_DEVICE static void load_own_boxes(Params const& params, SharedStorage& storage, Pipeline& pipeline,
                                         TileCoord const& tile, LoadedRows const& rows, ClusterCoord<Config> const& cluster,
                                         EachKTile const& each_k_tile) {
    OwnBoxes<A> const a(&params.map_a, &params.edge_a, cluster.n, params.box_a, rows.a, tile.first_m(A::kTileMn));
    OwnBoxes<B> const b(&params.map_b, &params.edge_b, cluster.m, params.box_b, rows.b,
                        tile.first_n(launched_tile_n<Config>(params)));
    int const batch_a = tile.batch * params.batch_step_a, batch_b = tile.batch * params.batch_step_b;
    uint16_t const ctas_a = cluster.mask_a(), ctas_b = cluster.mask_b();
    auto const load = [&](auto shared_a, auto shared_b) {
      each_k_tile([&](int stage, int k_tile) {
        Barrier& full = pipeline.full[stage];
        full.arrive_and_expect(rows.bytes);
        load_own<A, shared_a>(params, a, storage.stage_a(stage), full, ctas_a, k_tile, batch_a);
        load_own<B, shared_b>(params, b, storage.stage_b(params, stage), full, ctas_b, k_tile, batch_b);
      });
    };
    using Yes = cute::true_type;
    using No = cute::false_type;
    if (cluster.shape().n > 1) {
      if (cluster.shape().m > 1) {
        load(Yes{}, Yes{});
      } else {
        load(Yes{}, No{});
      }
    } else if (cluster.shape().m > 1) {
      load(No{}, Yes{});
    } else {
      load(No{}, No{});
    }
  }

  /// Prefetches the first stages into L2 while the preceding kernel still runs.
  CUTE_DEVICE static void prefetch_stages(Params const& params, TileCoord const& tile, WorkTileInfo const& work,
                                          ClusterCoord<Config> const& cluster) {
    int const count = work.k_tiles < Config::kPrefetch ? work.k_tiles : Config::kPrefetch;
    LoadedRows const rows = rows_of(params, tile);
    for (int i = 0; i < count; ++i) {
      BoxCoord<A> const a(tile.first_m(A::kTileMn), work.k_begin + i, tile.batch * params.batch_step_a);
      BoxCoord<B> const b(tile.first_n(launched_tile_n<Config>(params)), work.k_begin + i, tile.batch * params.batch_step_b);
      prefetch_operand<A>(&params.map_a, &params.edge_a, Share<A>(cluster.n, params.box_a), rows.a, a);
      prefetch_operand<B>(&params.map_b, &params.edge_b, Share<B>(cluster.m, params.box_b), rows.b, b);
    }
  }

  /// The producer's whole run. Called by its whole warp if the scheduler needs all lanes.
  CUTE_DEVICE static void load(Params const& params, typename TileScheduler::Params const& scheduling, SharedStorage& storage,
                               Pipeline& pipeline) {
    load_all_stages<Config, Sm90TmaLoad>(params, scheduling, storage, pipeline);
  }

 private:
  /// Lines of a panel: rows of the tile if K is contiguous, else columns along K.
  template <class Operand>
  static constexpr int kLines = Operand::kContiguousK ? Operand::kTileMn : Operand::kTileK;

  // A CTA whose share of an operand lies beyond the matrix, or a small group, loads a line of zeros to the place of the share,
  // for all CTAs that read it, so that these wait for it. Otherwise one of them could release a stage twice before this CTA has
  // counted its first release: the second would count in place of that of a third CTA, which is still reading the stage.
  static constexpr uint32_t kLineBytes = A::kLine * int(sizeof(typename A::Element));

  /// Loads a line that lies outside the matrix, at -1, which TMA fills with zeros. share: of one CTA, in a stage of an operand.
  CUTE_DEVICE static void load_line(Params const& params, void* share, Barrier& full, uint16_t ctas) {
    tma_load_multicast(&params.line, share, full, ctas, 0, -1, 0, CacheHint::kNormal);
  }

  static CUresult encode(Params& params, GemmArguments<Config> const& args, bool whole_a) {
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
    // The rows of a group may end inside a tile: the tensor maps of one launch cannot have boxes for each group's last rows.
    using Coord = typename TileScheduler::Params::Coord;
    constexpr int kWhole = std::numeric_limits<int>::max();
    params.end_a = whole_a || Coord::kRowsOfGroups ? kWhole : int(args.m);
    params.end_b = Coord::kColumnsOfGroups ? kWhole : int(args.n);
    // evict_first pays if there are larger groups, which share what they read in L2, and costs a few percent if there are none
    // (H200). The host does not know the sizes of the groups, but if they have more rows than one cluster tile each, some are
    // larger.
    if constexpr (Coord::kConsecutiveGroups) {
      constexpr int64_t kTile = Coord::kRowsOfGroups ? kClusterTileM<Config> : kClusterTileN<Config>;
      params.evict_first =
          !(Coord::kRowsOfGroups ? shared_b : shared_a) && (Coord::kRowsOfGroups ? args.m : args.n) >= kTile * args.batch;
    }
    int const edge_lines_a = edge_lines<A>(params.end_a, params.box_a);
    int const edge_lines_b = edge_lines<B>(params.end_b, params.box_b);
    params.edges = edge_lines_a + edge_lines_b > 0;
    params.exists = true;
    CUresult result = encode_maps<A>(params.map_a, params.edge_a, args.a, a, params.box_a, edge_lines_a);
    if (result != CUDA_SUCCESS) { return result; }
    if (cluster_shape<Config>(params).ctas() > 1) {
      result = encode_tensor_map<typename A::Element>(params.line, args.a, a, A::kLine, 1, A::kSwizzleBytes);
      if (result != CUDA_SUCCESS) { return result; }
    }
    return encode_maps<B>(params.map_b, params.edge_b, args.b, b, params.box_b, edge_lines_b);
  }

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

  /// Rows in the last, partial box of an operand with K contiguous: `end` modulo the rows of a box. 0: every box is whole, the
  /// operand has M or N contiguous, or all rows are loaded (`end` is the largest int).
  template <class Operand>
  static int edge_lines(int end, int box) {
    return Operand::kContiguousK && end != std::numeric_limits<int>::max() ? end % box : 0;
  }

  /// The tensor maps of whole boxes and of boxes of `edge_lines` lines, if there are any.
  template <class Operand>
  static CUresult encode_maps(CUtensorMap& map, CUtensorMap& edge, typename Operand::Element const* data,
                              MatrixExtent const& extent, int box, int edge_lines) {
    using Element = typename Operand::Element;
    CUresult const result = encode_tensor_map<Element>(map, data, extent, Operand::kLine, box, Operand::kSwizzleBytes);
    edge = map;
    if (result != CUDA_SUCCESS || edge_lines == 0) { return result; }
    return encode_tensor_map<Element>(edge, data, extent, Operand::kLine, edge_lines, Operand::kSwizzleBytes);
  }

  /// Does one row of cluster tiles cover the tile's group? Then no other cluster reads the tile's columns of the group's B.
  template <class Tile>
  CUTE_DEVICE static bool is_one_row_of_tiles([[maybe_unused]] Tile const& tile) {
    if constexpr (Tile::kRowsOfGroups) {
      return tile.rows_of_group() <= kClusterTileM<Config>;
    } else {
      return false;
    }
  }
  /// The same for columns, in kernels whose groups differ in columns alone.
  template <class Tile>
  CUTE_DEVICE static bool is_one_column_of_tiles([[maybe_unused]] Tile const& tile) {
    if constexpr (Tile::kColumnsOfGroups && !Tile::kRowsOfGroups) {
      return tile.columns_of_group() <= kClusterTileN<Config>;
    } else {
      return false;
    }
  }

  /// evict_first for what is read once, if the operand's own priority is the normal one.
  template <class Operand>
  CUTE_DEVICE static CacheHint hint_of(bool read_once) {
    return read_once && Operand::kHint == CacheHint::kNormal ? CacheHint::kEvictFirst : Operand::kHint;
  }

  /// How many of a tile's `all` rows are loaded. left: rows of the matrix, or of the group, from the tile's first row on; may
  /// be negative, or more than the tile has. lines: of a box that is loaded whole, if K is contiguous.
  template <class Operand>
  CUTE_DEVICE static int loaded_rows(int left, int all, int lines = 1) {
    int const step = Operand::kContiguousK ? lines : Operand::kLine;  // a panel is loaded whole
    if (left >= all) { return all; }
    return left <= 0 ? 0 : min((left + step - 1) / step * step, all);
  }

  /// A CTA's share of an operand tile: boxes() boxes of kLine x `box` elements of each panel. CTAs that need the same tile load
  /// one share each, for all of them.
  template <class Operand>
  struct Share {
    int index, box;  // lines

    CUTE_DEVICE explicit Share(int index, [[maybe_unused]] int box_at_launch = 0) : index(index) {
      if constexpr (Config::kClusterAtLaunch) {
        box = box_at_launch;
      } else {
        box = Operand::kBoxAcross;
      }
    }

    CUTE_DEVICE static constexpr int boxes() {
      if constexpr (Config::kClusterAtLaunch) {
        return 1;
      } else {
        return Operand::kBoxes;
      }
    }

    CUTE_DEVICE int lines() const { return boxes() * box; }
    CUTE_DEVICE int first_line() const { return index * lines(); }
  };

  /// How many of the shares of an operand tile have none of the `rows` that are loaded; 0 if a single CTA reads the tile.
  /// share: any of them.
  template <class Operand>
  CUTE_DEVICE static int empty_shares(int shares, Share<Operand> const& share, int rows) {
    if (shares == 1 || rows == Operand::kTileMn) { return 0; }
    if constexpr (Operand::kContiguousK) {
      return shares - (rows + share.lines() - 1) / share.lines();
    } else {
      return rows == 0 ? shares : 0;  // a share is lines of every panel
    }
  }

  /// The boxes that a CTA loads of an operand tile with kClusterAtLaunch: one of each panel, which begins at line `line`.
  template <class Operand>
  struct OwnBoxes {
    CUtensorMap const* map;
    int line, mn;
    int rows;  // of the tile that are loaded; 0: this share lies beyond the matrix

    /// mn: the tile's first row of A or column of B.
    CUTE_DEVICE OwnBoxes(CUtensorMap const* map, CUtensorMap const* edge, int share, int box, int rows, int mn)
        : map(map), line(share * box), mn(mn), rows(rows) {
      if constexpr (Operand::kContiguousK) {
        if (line >= rows) { this->rows = 0; }
        if (line + box > rows) { this->map = edge; }
      }
    }
  };

  template <class Operand, bool kShared>
  CUTE_DEVICE static void load_own(Params const& params, OwnBoxes<Operand> const& own, typename Operand::Element* stage,
                                   Barrier& full, uint16_t ctas, int k_tile, int batch) {
    if constexpr (kShared) {
      if (own.rows == 0) { return load_line(params, stage + own.line * Operand::kLine, full, ctas); }
    }
    BoxCoord<Operand> const begin(own.mn, k_tile, batch);
    CUTE_UNROLL
    for (int panel = 0; panel < Operand::kPanels; ++panel) {
      if ((Operand::kContiguousK ? 0 : panel * Operand::kLine) >= own.rows) { break; }
      auto* const smem = stage + (panel * kLines<Operand> + own.line) * Operand::kLine;
      int const along = begin.along + panel * Operand::kLine, across = begin.across + own.line;
      if constexpr (kShared) {
        tma_load_multicast(own.map, smem, full, ctas, along, across, batch, Operand::kHint);
      } else {
        tma_load(own.map, smem, full, along, across, batch, Operand::kHint);
      }
    }
  }

  /// Calls visit(map, panel, line, along) for every box of this CTA's share of the `rows` of an operand tile that are loaded.
  template <class Operand, class Visit>
  CUTE_DEVICE static void for_each_box(CUtensorMap const* map, CUtensorMap const* edge, Share<Operand> const& share, int rows,
                                       Visit const& visit) {
    CUTE_UNROLL
    for (int panel = 0; panel < Operand::kPanels; ++panel) {
      if (!Operand::kContiguousK && panel * Operand::kLine >= rows) { break; }
      CUTE_UNROLL
      for (int i = 0; i < Share<Operand>::boxes(); ++i) {
        int const line = share.first_line() + i * share.box;
        if (Operand::kContiguousK && line >= rows) { break; }
        bool const in_part = Operand::kContiguousK && line + share.box > rows;
        visit(in_part ? edge : map, panel, line, panel * Operand::kLine);
      }
    }
  }

  template <class Operand, int kShare>
  CUTE_DEVICE static void load_operand([[maybe_unused]] Params const& params, CUtensorMap const* map, CUtensorMap const* edge,
                                       typename Operand::Element* stage, Barrier& full, uint16_t ctas,
                                       Share<Operand> const& share, int rows, BoxCoord<Operand> const& begin, CacheHint hint) {
    if constexpr (kShare > 1) {
      if ((Operand::kContiguousK ? share.first_line() : 0) >= rows) {
        return load_line(params, stage + share.first_line() * Operand::kLine, full, ctas);
      }
    }
    for_each_box<Operand>(map, edge, share, rows, [&](CUtensorMap const* of, int panel, int line, int along) {
      auto* const smem = stage + (panel * kLines<Operand> + line) * Operand::kLine;
      if constexpr (kShare == 1) {
        tma_load(of, smem, full, begin.along + along, begin.across + line, begin.batch, hint);
      } else {
        tma_load_multicast(of, smem, full, ctas, begin.along + along, begin.across + line, begin.batch, hint);
      }
    });
  }

  template <class Operand>
  CUTE_DEVICE static void prefetch_operand(CUtensorMap const* map, CUtensorMap const* edge, Share<Operand> const& share,
                                           int rows, BoxCoord<Operand> const& begin) {
    for_each_box<Operand>(map, edge, share, rows, [&](CUtensorMap const* of, int, int line, int along) {
      tma_prefetch_box(of, begin.along + along, begin.across + line, begin.batch);
    });
  }
};

}  // namespace v0_1
}  // namespace mmagen
