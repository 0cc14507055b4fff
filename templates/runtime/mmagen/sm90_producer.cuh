// The producer: one thread that keeps the ring of stages full by TMA.
#pragma once

#include "sm90_params.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Calls visit(panel, line, along) for every box of this CTA's share of an operand tile: boxes of kLine x kBoxAcross
/// elements, kBoxes of them in each panel. Where kShare CTAs need the same tile, each loads its part for all of them.
template <class Operand, class Visit>
CUTE_DEVICE void for_each_box(int share, Visit const& visit) {
  CUTE_UNROLL
  for (int panel = 0; panel < Operand::kPanels; ++panel) {
    CUTE_UNROLL
    for (int box = 0; box < Operand::kBoxes; ++box) {
      visit(panel, (share * Operand::kBoxes + box) * Operand::kBoxAcross, panel * Operand::kLine);
    }
  }
}

template <class Operand, int kShare>
CUTE_DEVICE void load_operand(CUtensorMap const* map, typename Operand::Element* stage, Barrier& full, uint16_t ctas, int share,
                              int along, int across, int batch) {
  constexpr int kAcross = Operand::kBoxAcross * Operand::kBoxes * kShare;  // lines of a panel
  for_each_box<Operand>(share, [&](int panel, int line, int offset) {
    auto* const smem = stage + (panel * kAcross + line) * Operand::kLine;
    if constexpr (kShare == 1) {
      tma_load(map, smem, full, along + offset, across + line, batch, Operand::kHint);
    } else {
      tma_load_multicast(map, smem, full, ctas, along + offset, across + line, batch, Operand::kHint);
    }
  });
}

template <class Operand>
CUTE_DEVICE void prefetch_operand(CUtensorMap const* map, int share, int along, int across, int batch) {
  for_each_box<Operand>(share, [&](int, int line, int offset) { tma_prefetch_box(map, along + offset, across + line, batch); });
}

/// Where k tile `k_tile` of the rows `mn_tile` lies in an operand: along its contiguous mode, across it, and the batch.
template <class Operand>
struct TilePlace {
  int along, across, batch;

  CUTE_DEVICE TilePlace(int mn_tile, int k_tile, int batch) : batch(batch) {
    int const mn = mn_tile * Operand::kTileMn;
    int const k = k_tile * Operand::kTileK;
    along = Operand::kContiguousK ? k : mn;
    across = Operand::kContiguousK ? mn : k;
  }
};

/// Loads k tile `k_tile` of the CTA tile `tile` into a stage that is free in all CTAs it goes to.
template <class Config>
CUTE_DEVICE void load_stage(Sm90Params<Config> const& params, Sm90Storage<Config>& storage, int stage, int k_tile,
                            TileCoord const& tile, ClusterPlace<Config> const& place) {
  using A = typename Config::A;
  using B = typename Config::B;
  TilePlace<A> const a(tile.m, k_tile, tile.batch * params.batch_step_a);
  TilePlace<B> const b(tile.n, k_tile, tile.batch * params.batch_step_b);
  Barrier& full = storage.full[stage];
  full.arrive_and_expect(params.stage_bytes);
  load_operand<A, Config::kClusterN>(&params.map_a, storage.a.begin() + stage * A::kTileMn * A::kTileK, full, place.mask_a(),
                                     place.n, a.along, a.across, a.batch);
  load_operand<B, Config::kClusterM>(&params.map_b, storage.b.begin() + stage * B::kTileMn * B::kTileK, full, place.mask_b(),
                                     place.m, b.along, b.across, b.batch);
}

/// Brings the first stages into L2 while the kernel before still runs.
template <class Config>
CUTE_DEVICE void prefetch_stages(Sm90Params<Config> const& params, TileCoord const& tile, int k_begin, int k_tiles,
                                 ClusterPlace<Config> const& place) {
  int const count = k_tiles < Config::kPrefetch ? k_tiles : Config::kPrefetch;
  for (int i = 0; i < count; ++i) {
    TilePlace<typename Config::A> const a(tile.m, k_begin + i, tile.batch * params.batch_step_a);
    TilePlace<typename Config::B> const b(tile.n, k_begin + i, tile.batch * params.batch_step_b);
    prefetch_operand<typename Config::A>(&params.map_a, place.n, a.along, a.across, a.batch);
    prefetch_operand<typename Config::B>(&params.map_b, place.m, b.along, b.across, b.batch);
  }
}

/// The life of the producer thread: all k tiles of all tiles of this CTA.
template <class Config>
CUTE_DEVICE void produce(Sm90Params<Config> const& params, Sm90Storage<Config>& storage) {
  ClusterPlace<Config> const place;
  PipelineState<Config::kStages> pipe;
  Walk<Config> walk(params);
  if constexpr (Config::kPrefetch > 0) {
    Piece const piece = walk.piece(params, place);
    prefetch_stages<Config>(params, cta_tile<Config>(params, piece.linear, place), piece.begin, piece.count, place);
  }
  wait_for_last_launch();
  for (; walk.inside(params); walk.advance(params)) {
    Piece const piece = walk.piece(params, place);
    TileCoord const tile = cta_tile<Config>(params, piece.linear, place);
    CUTE_NO_UNROLL
    for (int i = 0; i < piece.count; ++i, ++pipe) {
      storage.empty[pipe.stage].wait(pipe.phase ^ 1);  // the first round finds every stage free
      load_stage<Config>(params, storage, pipe.stage, piece.begin + i, tile, place);
    }
  }
  if constexpr (Config::kClusterM * Config::kClusterN > 1) {
    // Other CTAs tell this one's barriers that they have read: it must not end before the last of them has.
    CUTE_NO_UNROLL
    for (int i = 0; i < Config::kStages; ++i, ++pipe) { storage.empty[pipe.stage].wait(pipe.phase ^ 1); }
  }
}

}  // namespace v0_1
}  // namespace mmagen
