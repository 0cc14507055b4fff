// Split-K tile scheduler for any number of splits: every work tile is a part of the K of an output tile. Its partial sums go
// to a workspace in global memory, and a second kernel adds them up in the order of K.
#pragma once

#include <algorithm>

#include <cute/tensor.hpp>

#include "sm90_cluster.cuh"
#include "split_k_reduction.cuh"
#include "tile_scheduler.cuh"

namespace mmagen {
inline namespace v0_1 {

/// kSplits: parts of the K of an output tile; 0: as many as are predicted to be fastest, which may be one. There are never
/// more than k tiles, nor more than the workspace holds. With one part no second kernel runs.
///
/// Work tiles with the same part of K follow each other in raster order: those that run at the same time share operands.
template <class Config, int kSplits>
struct SplitKWorkspaceTileScheduler {
  static constexpr int kSplitK = 1;
  static constexpr bool kReduces = true;
  static constexpr bool kSharesTiles = true;
  static constexpr bool kHasEmptyWork = false;

  using Sum = typename Config::ElementAccumulator;
  static_assert(sizeof(Sum) == 4, "partial sums are 32-bit words");

  struct Arguments {
    void* workspace;
    int64_t workspace_bytes;
  };

  struct Params : TileSchedulerParams {
    FastDivmod divide_by_tiles;
    unsigned work_tiles;           // output tiles times splits
    unsigned k_tiles_each, extra;  // split i has k_tiles_each k tiles, and one more if i < extra
    int m, n;
    int tile_n;  // with Config::kTileNAtLaunch: columns of a tile that are computed
    PartialSums<Sum> sums;
  };

  template <class Args>
  static Arguments arguments(Args const& args) {
    return {args.workspace, args.workspace_bytes};
  }

  static Status make_params(Params& params, GemmShape const& shape, Arguments const& arguments, int resident,
                            ClusterShape cluster) {
    if (!is_aligned_to<float4>(arguments.workspace)) { return Status::kMisalignedWorkspace; }
    detail::make_tiles_of_clusters<Config>(params, shape, cluster);
    params.m = int(shape.m);
    params.n = int(shape.n);
    params.tile_n = cluster.tile_n;
    params.sums = PartialSums<Sum>(shape, Config::kDRowMajor);
    int64_t const room = arguments.workspace == nullptr ? 0 : arguments.workspace_bytes / params.sums.split_bytes();
    int64_t const splits = std::min<int64_t>(split_count(params, shape, resident, cluster), std::max<int64_t>(room, 1));
    params.sums.data = static_cast<Sum*>(arguments.workspace);
    params.sums.splits = int(splits);
    params.divide_by_tiles = FastDivmod(params.tiles);
    params.work_tiles = params.tiles * unsigned(splits);
    params.k_tiles_each = unsigned(params.k_tiles) / unsigned(splits);
    params.extra = unsigned(params.k_tiles) % unsigned(splits);
    return Status::kSuccess;
  }

  static unsigned grid(Params const& params, int resident) { return std::min(unsigned(resident), params.work_tiles); }

  /// The sums of all splits; 0 with one part.
  static int64_t workspace_bytes(GemmShape const& shape, int resident, ClusterShape cluster) {
    TileSchedulerParams tiles{};
    detail::make_tiles_of_clusters<Config>(tiles, shape, cluster);
    int64_t const splits = split_count(tiles, shape, resident, cluster);
    return splits > 1 ? splits * PartialSums<Sum>(shape, Config::kDRowMajor).split_bytes() : 0;
  }

  /// Adds up the partial sums of a launch with more than one split.
  static Status reduce(Params const& params, GemmArguments<Config> const& args, cudaStream_t stream) {
    return params.sums.splits > 1 ? run_split_k_reduction<Config>(params.sums, args, stream) : Status::kSuccess;
  }

  ClusterCoord<Config> const& cluster;
  unsigned work = cluster_index<Config>();

  CUTE_DEVICE SplitKWorkspaceTileScheduler(Params const&, ClusterCoord<Config> const& cluster) : cluster(cluster) {}

  CUTE_DEVICE bool is_valid(Params const& params) const { return work < params.work_tiles; }

  CUTE_DEVICE void advance(Params const&) { work += cluster_count<Config>(); }

  CUTE_DEVICE WorkTileInfo work_tile(Params const& params) const {
    unsigned const split = params.divide_by_tiles.divide(work);
    unsigned const begin = split * params.k_tiles_each + cute::min(split, params.extra);
    return {work - split * params.tiles, int(begin), int(params.k_tiles_each + (split < params.extra ? 1 : 0))};
  }

  /// Called by all consumer threads. Writes the partial sums to the workspace, if there are several splits; else this CTA
  /// stores the tile. Returns whether it does.
  template <class Storage, class TensorRC>
  CUTE_DEVICE bool fixup(Params const& params, WorkTileInfo const& info, Storage&, TensorRC const& tCrC) const {
    if (params.sums.splits == 1) { return true; }
    TileCoord const tile = cta_tile<Config>(*this, params, info, cluster);
    unsigned const split = params.divide_by_tiles.divide(work);
    write(params, tile, params.sums.data + split * params.sums.split_stride + tile.batch * params.sums.matrix_stride, tCrC);
    return false;
  }
  CUTE_DEVICE static void fixup_producer() {}

 private:
  /// A thread's accumulators: rows t/4 and t/4 + 8 of the 16 of its warp, columns 2 * (t % 4) and the next, in every group of
  /// 8 columns. Four (eight) neighbours write the 32 bytes of a sector.
  template <class TensorRC>
  CUTE_DEVICE static void write(Params const& params, TileCoord const& tile, Sum* matrix,
                                TensorRC const& tCrC) {  // ((2,2,MMA_N/8),MMA_M,MMA_N)
    using Epilogue = typename Config::Epilogue;
    auto const [thread, warpgroup_m, warpgroup_n, _k] =
        typename Config::TiledMma::ThrLayoutVMNK{}.get_flat_coord(int(threadIdx.x));
    int const tile_n = launched_tile_n<Config>(params);
    int const first_m =
        tile.m * Config::kTileM + warpgroup_m * Epilogue::kMmaM + thread / 32 * Epilogue::kWarpRows + thread % 32 / 4;
    int const first_n = tile.n * tile_n + warpgroup_n * Epilogue::kMmaN + thread % 4 * 2;
    int const end_n = Config::kTileNAtLaunch ? min(params.n, (tile.n + 1) * tile_n) : params.n;
    CUTE_UNROLL
    for (int i = 0; i < Epilogue::kCountM * 2; ++i) {
      int const m = first_m + i / 2 * Epilogue::kMmaM * Epilogue::kWarpgroupsM + i % 2 * 8;
      if (m >= params.m) { continue; }
      CUTE_UNROLL
      for (int j = 0; j < Epilogue::kCountN * (Epilogue::kMmaN / 8); ++j) {
        constexpr int kGroups = Epilogue::kMmaN / 8;
        int const n = first_n + j / kGroups * Epilogue::kMmaN * Epilogue::kWarpgroupsN + j % kGroups * 8;
        auto const* const words = reinterpret_cast<unsigned const*>(&tCrC(0, i / 2, j / kGroups)) + j % kGroups * 4 + i % 2 * 2;
        if constexpr (Config::kDRowMajor) {  // the second column may be padding of the line
          if (n < end_n) { __stcg(reinterpret_cast<uint2*>(matrix + m * params.sums.pitch + n), uint2{words[0], words[1]}); }
        } else {
          auto* const to = reinterpret_cast<unsigned*>(matrix + n * params.sums.pitch + m);
          if (n < end_n) { __stcg(to, words[0]); }
          if (n + 1 < end_n) { __stcg(to + params.sums.pitch, words[1]); }
        }
      }
    }
  }

  static int split_count(TileSchedulerParams const& tiles, GemmShape const& shape, int resident, ClusterShape cluster) {
    PartialSums<Sum> const sums(shape, Config::kDRowMajor);
    int64_t const vectors = detail::ceil_div(sums.along, kReductionVector) * sums.across * shape.batch;
    if (vectors > 0x7fffffff) { return 1; }  // more than the reduction counts
    int64_t const most = std::max<int64_t>(1, std::min<int64_t>(tiles.k_tiles, 0x7fffffff / tiles.tiles));
    if (kSplits > 0) { return int(std::min<int64_t>(kSplits, most)); }
    // More splits help if they fill a wave: for each number of waves, the most splits that fit it.
    constexpr int kMostWaves = 8;
    int64_t best = 1;
    double least = predicted_cycles(tiles, shape, sums, 1, resident, cluster);
    for (int waves = 1; waves <= kMostWaves; ++waves) {
      int64_t const splits = std::min(most, int64_t(waves) * resident / tiles.tiles);
      if (splits <= best) { continue; }
      double const cycles = predicted_cycles(tiles, shape, sums, splits, resident, cluster);
      if (cycles < least) {
        least = cycles;
        best = splits;
      }
    }
    return int(best);
  }

  /// Cycles for everything that depends on the number of splits: k tiles, at the rate of wgmma, of loads from L2 or of device
  /// memory; the start and the end of each work tile; the second kernel, and the sums that one kernel writes and the other
  /// reads. The rates are fitted to measurements on an H200 (docs/performance.md).
  static double predicted_cycles(TileSchedulerParams const& tiles, GemmShape const& shape, PartialSums<Sum> const& sums,
                                 int64_t splits, int resident, ClusterShape cluster) {
    constexpr double kL2Bytes = 56;                        // of an SM in a cycle
    constexpr double kSumBytes = 3200, kDramBytes = 2200;  // of the device
    constexpr double kWorkTile = 1500, kReduction = 8000;
    constexpr int kBytesA = sizeof(typename Config::A::Element), kBytesB = sizeof(typename Config::B::Element);
    double const mma = double(Config::kTileM) * cluster.tile_n * Config::kTileK * kBytesA / 4096;
    double const rows_a = double(std::min<int64_t>(Config::kTileM, shape.m)) * kBytesA / cluster.n;
    double const rows_b = double(std::min<int64_t>(cluster.tile_n, shape.n)) * kBytesB / cluster.m;
    double const k_tile = std::max(mma, (rows_a + rows_b) * Config::kTileK / kL2Bytes);
    double const waves = double(detail::ceil_div(int64_t(tiles.tiles) * splits, resident));
    double const work = waves * (kWorkTile + double(detail::ceil_div(tiles.k_tiles, splits)) * k_tile);
    double const operands = (double(shape.m) * kBytesA + double(shape.n) * kBytesB) * double(shape.k) * double(shape.batch);
    double const cycles = std::max(work, operands / kDramBytes);
    if (splits == 1) { return cycles; }
    return cycles + kReduction + 2.0 * double(splits) * double(sums.split_bytes()) / kSumBytes;
  }
};

}  // namespace v0_1
}  // namespace mmagen
