// What the sm_90 kernels are told, and how a CTA finds its place: cluster rank, tile, shared memory.
#pragma once

#include <cute/tensor.hpp>

#include "raster.cuh"
#include "sm90_barrier.cuh"
#include "sm90_tma.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Stream K: the tiles that do not fill a last wave are cut into equal ranges of k tiles, one for each cluster. `tiles`:
/// how many, from the first on (0: none); cluster i takes `share` k tiles and one more where i < `extra`.
struct StreamedTiles {
  unsigned tiles, share, extra;
  Divisor k_tiles;    // of a tile
  float4* partials;   // sums of a tile that another cluster finishes, one CTA tile for each CTA
  unsigned* arrived;  // 1 once they are there
};
struct NothingStreamed {};

/// The tensor maps are read by TMA where they are, in the parameter space.
template <class Config>
struct Sm90Params {
  CUtensorMap map_a, map_b, map_d;
  int m, n, k;
  Raster raster;                   // of tiles of a cluster
  unsigned clusters;               // such tiles, in all batches
  uint32_t stage_bytes;            // that TMA brings to a stage
  int batch_step_a, batch_step_b;  // 0: one matrix for the whole batch
  typename Config::ElementD const* c;
  int64_t ldc, batch_stride_c;
  typename Config::ElementD* d;
  int64_t ldd, batch_stride_d;
  bool ragged_d;  // a row (column) of D is no whole number of 16 bytes
  typename Config::Scalar alpha, beta;
  cute::conditional_t<Config::kStreamK, StreamedTiles, NothingStreamed> streamed;
};

/// Stages of A and B, and what the epilogue stages for TMA. TMA's swizzle counts address bits: 1024-byte boundaries.
template <class Config>
struct Sm90Storage {
  alignas(1024) cute::ArrayEngine<typename Config::A::Element, cute::cosize_v<typename Config::A::SmemLayout>> a;
  alignas(1024) cute::ArrayEngine<typename Config::B::Element, cute::cosize_v<typename Config::B::SmemLayout>> b;
  alignas(1024) unsigned char d[Config::kEpilogueBytes];
  alignas(1024) Barrier full[Config::kStages];
  Barrier empty[Config::kStages];
  Barrier turn[Config::kConsumers];
};

template <class Config>
inline constexpr int kClusterCtas = Config::kClusterM * Config::kClusterN * Config::kSplitK;

/// The warp's number within the CTA, the same register in all lanes for the compiler's sake.
CUTE_DEVICE int warp_index() { return __shfl_sync(0xffffffff, int(threadIdx.x) / 32, 0); }

/// Gives registers of a warpgroup back, or takes them; 0 leaves them as they were at launch. The kernel's launch bounds
/// must fix that number, or ptxas ignores the request (C7508).
template <int kRegisters>
CUTE_DEVICE void release_registers() {
  if constexpr (kRegisters > 0) { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters)); }
}
template <int kRegisters>
CUTE_DEVICE void take_registers() {
  if constexpr (kRegisters > 0) { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters)); }
}

/// This CTA within its cluster: which tile of the cluster's, and which part of K.
template <class Config>
struct ClusterPlace {
  int rank, m, n, split;

  CUTE_DEVICE ClusterPlace() : rank(0) {
    if constexpr (kClusterCtas<Config> > 1) { rank = int(cute::block_rank_in_cluster()); }
    m = rank % Config::kClusterM;
    n = rank / Config::kClusterM % Config::kClusterN;
    split = rank / (Config::kClusterM * Config::kClusterN);
  }

  /// Rank of the CTA at (m, n) that works on the same part of K.
  CUTE_DEVICE int rank_of(int other_m, int other_n) const {
    return other_m + Config::kClusterM * (other_n + Config::kClusterN * split);
  }

  /// CTAs that need the same tile of A: those of this row.
  CUTE_DEVICE uint16_t mask_a() const {
    unsigned mask = 0;
    for (int i = 0; i < Config::kClusterN; ++i) { mask |= 1u << rank_of(m, i); }
    return uint16_t(mask);
  }

  /// CTAs that need the same tile of B: those of this column.
  CUTE_DEVICE uint16_t mask_b() const {
    unsigned mask = 0;
    for (int i = 0; i < Config::kClusterM; ++i) { mask |= 1u << rank_of(i, n); }
    return uint16_t(mask);
  }

  /// Do I read what the CTA of this rank loads?
  CUTE_DEVICE bool reads_from(int other) const { return ((mask_a() | mask_b()) >> other) & 1; }
};

/// A piece of work: `count` k tiles of a tile of the cluster's, from `begin` on. Whoever has the last k tile stores the
/// tile, after adding what others have summed up before `begin`.
struct Piece {
  unsigned linear;
  int begin, count;
  bool stores;
};

/// What a CTA does: a persistent grid of clusters walks over all tiles in raster order. Where kSplitK CTAs work on one
/// tile, each takes its part of K.
template <class Config, bool kStreamK = Config::kStreamK>
struct Walk {
  unsigned linear = blockIdx.x / kClusterCtas<Config>;

  CUTE_DEVICE Walk(Sm90Params<Config> const&) {}
  CUTE_DEVICE bool inside(Sm90Params<Config> const& params) const { return linear < params.clusters; }
  CUTE_DEVICE void advance(Sm90Params<Config> const&) { linear += gridDim.x / kClusterCtas<Config>; }

  CUTE_DEVICE Piece piece(Sm90Params<Config> const& params, ClusterPlace<Config> const& place) const {
    int const k_tiles = (params.k + Config::kTileK - 1) / Config::kTileK;
    int const begin = int(int64_t(k_tiles) * place.split / Config::kSplitK);
    int const end = int(int64_t(k_tiles) * (place.split + 1) / Config::kSplitK);
    return {linear, begin, end - begin, true};
  }
};

/// Stream K: first this cluster's range of the streamed tiles, from its end backwards, then whole tiles. The range ends
/// within a tile that the next cluster finishes: its sums are ready long before they are asked for.
template <class Config>
struct Walk<Config, true> {
  unsigned cluster = blockIdx.x / kClusterCtas<Config>;
  unsigned clusters = gridDim.x / kClusterCtas<Config>;
  unsigned first, end;  // of the streamed k tiles, still to do
  unsigned linear;      // the next whole tile

  CUTE_DEVICE Walk(Sm90Params<Config> const& params)
      : first(range_begin(params, cluster)), end(range_begin(params, cluster + 1)), linear(params.streamed.tiles + cluster) {}

  CUTE_DEVICE static unsigned range_begin(Sm90Params<Config> const& params, unsigned cluster) {
    return cluster * params.streamed.share + cute::min(cluster, params.streamed.extra);
  }

  CUTE_DEVICE bool inside(Sm90Params<Config> const& params) const { return first < end || linear < params.clusters; }

  CUTE_DEVICE void advance(Sm90Params<Config> const& params) {
    if (first < end) {
      unsigned const tile = params.streamed.k_tiles.quotient(end - 1);
      end = cute::max(first, tile * params.streamed.k_tiles.value);
    } else {
      linear += clusters;
    }
  }

  CUTE_DEVICE Piece piece(Sm90Params<Config> const& params, ClusterPlace<Config> const&) const {
    unsigned const k_tiles = params.streamed.k_tiles.value;
    if (first == end) { return {linear, 0, int(k_tiles), true}; }
    unsigned const tile = params.streamed.k_tiles.quotient(end - 1);
    unsigned const begin = cute::max(first, tile * k_tiles);
    return {tile, int(begin - tile * k_tiles), int(end - begin), end == (tile + 1) * k_tiles};
  }
};

/// The CTA tile of a tile of the cluster's.
template <class Config>
CUTE_DEVICE TileCoord cta_tile(Sm90Params<Config> const& params, unsigned linear, ClusterPlace<Config> const& place) {
  TileCoord coord = params.raster(linear);
  coord.m = coord.m * Config::kClusterM + place.m;
  coord.n = coord.n * Config::kClusterN + place.n;
  return coord;
}

/// Computes where to store now, while the last multiplies run: the compiler would do it after waiting for them.
CUTE_DEVICE void settle(TileCoord& tile) { asm volatile("" : "+r"(tile.m), "+r"(tile.n), "+r"(tile.batch)); }

/// Tells every CTA that loads for this one that a stage has been read: thread i of a warpgroup tells CTA i.
template <class Config>
CUTE_DEVICE void release_stage(Sm90Storage<Config>& storage, int stage, ClusterPlace<Config> const& place) {
  int const thread = threadIdx.x % 128;
  if constexpr (Config::kClusterM * Config::kClusterN == 1) {
    if (thread == 0) { storage.empty[stage].arrive(); }
  } else {
    if (thread < kClusterCtas<Config> && place.reads_from(thread)) { storage.empty[stage].arrive_at(thread); }
  }
}

/// Barriers, tensor maps and neighbours are ready afterwards. `readers`: warpgroups of one CTA that read a stage.
template <class Config>
CUTE_DEVICE void prepare(Sm90Params<Config> const& params, Sm90Storage<Config>& storage, int readers) {
  if (threadIdx.x == 0) {
    tma_prefetch(&params.map_a);
    tma_prefetch(&params.map_b);
    tma_prefetch(&params.map_d);
    for (int stage = 0; stage < Config::kStages; ++stage) {
      storage.full[stage].init(1);
      storage.empty[stage].init(readers * (Config::kClusterM + Config::kClusterN - 1));
    }
    for (Barrier& turn : storage.turn) { turn.init(1); }
    fence_barrier_init();
  }
  meet_cluster<kClusterCtas<Config>>();
  admit_next_launch();
}

}  // namespace v0_1
}  // namespace mmagen
