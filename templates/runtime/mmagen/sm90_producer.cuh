// The producer: one thread that keeps the ring of stages full by TMA.
#pragma once

#include "sm90_params.cuh"

namespace mmagen {
inline namespace v0_1 {

/// This CTA's share of one operand tile: boxes of kLine x kBoxAcross elements, kBoxes of them in each panel. Where
/// kShare CTAs need the same tile, each loads its part for all of them.
template <class Operand, int kShare>
CUTE_DEVICE void load_operand(CUtensorMap const* map, typename Operand::Element* stage, Barrier& full, uint16_t ctas,
                              int share, int along, int across, int batch)
{
  constexpr int kAcross = Operand::kBoxAcross * Operand::kBoxes * kShare;  // lines of a panel
  CUTE_UNROLL
  for (int panel = 0; panel < Operand::kPanels; ++panel) {
    CUTE_UNROLL
    for (int box = 0; box < Operand::kBoxes; ++box) {
      int const line = (share * Operand::kBoxes + box) * Operand::kBoxAcross;
      auto* const smem = stage + (panel * kAcross + line) * Operand::kLine;
      if constexpr (kShare == 1) {
        tma_load(map, smem, full, along + panel * Operand::kLine, across + line, batch, Operand::kHint);
      } else {
        tma_load_multicast(map, smem, full, ctas, along + panel * Operand::kLine, across + line, batch,
                           Operand::kHint);
      }
    }
  }
}

/// Loads k tile `k_tile` of the CTA tile `tile` into a stage that is free in all CTAs it goes to.
template <class Config>
CUTE_DEVICE void load_stage(Sm90Params<Config> const& params, Sm90Storage<Config>& storage, int stage, int k_tile,
                            TileCoord const& tile, ClusterPlace<Config> const& place)
{
  using A = typename Config::A;
  using B = typename Config::B;
  constexpr int kElementsA = A::kTileMn * A::kTileK;
  constexpr int kElementsB = B::kTileMn * B::kTileK;
  int const k = k_tile * Config::kTileK;
  int const m = tile.m * Config::kTileM;
  int const n = tile.n * Config::kTileN;
  Barrier& full = storage.full[stage];
  full.arrive_and_expect(params.stage_bytes);
  load_operand<A, Config::kClusterN>(&params.a, storage.a.begin() + stage * kElementsA, full, place.mask_a(), place.n,
                                     A::kContiguousK ? k : m, A::kContiguousK ? m : k,
                                     tile.batch * params.batch_step_a);
  load_operand<B, Config::kClusterM>(&params.b, storage.b.begin() + stage * kElementsB, full, place.mask_b(), place.m,
                                     B::kContiguousK ? k : n, B::kContiguousK ? n : k,
                                     tile.batch * params.batch_step_b);
}

/// The life of the producer thread: all k tiles of all tiles of this CTA.
template <class Config>
CUTE_DEVICE void produce(Sm90Params<Config> const& params, Sm90Storage<Config>& storage)
{
  ClusterPlace<Config> const place;
  KRange<Config> const range(params.k, place.split);
  PipelineState<Config::kStages> pipe;
  for (TileWalk<Config> walk; walk.inside(params); ++walk) {
    TileCoord const tile = walk.tile(params, place);
    CUTE_NO_UNROLL
    for (int i = 0; i < range.count; ++i, ++pipe) {
      storage.empty[pipe.stage].wait(pipe.phase ^ 1);  // the first round finds every stage free
      load_stage<Config>(params, storage, pipe.stage, range.begin + i, tile, place);
    }
  }
}

}  // namespace v0_1
}  // namespace mmagen
