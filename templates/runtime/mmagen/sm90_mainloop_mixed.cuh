// Mainloop for sm_90 with narrow weights as A and 16-bit activations as B. TMA loads both as they lie in memory; each consumer
// thread converts the weights of its fragments in registers, which wgmma reads from there.
//
// A fragment of wgmma has pairs of neighbouring columns, four threads to a row, so that a thread would have to pick single
// bytes out of a row of weights. Instead each of the four takes a quarter of a chunk (kChunk columns), loaded as vectors
// without bank conflicts, and the activations, which are few, are put into the order that this makes: the other warps of the
// producer's warpgroup permute them in shared memory. Column 2 * q + e of group 4 * w + i of eight columns of a chunk is column
// q * kChunk / 4 + 8 * w + i + 4 * e of the matrices, q the thread of four, i 0 .. 3, e 0 and 1.
//
// A chunk lies in one group of columns that share a scale. The tensor core sums a chunk of exact integers (or 8-bit floats),
// and the sum times the scale of its row is added in f32, so that scales are never rounded. While it sums one chunk, the
// fragments of the next are converted.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_pipeline.cuh"
#include "sm90_scales.cuh"
#include "sm90_stage_mma.cuh"
#include "sm90_tma_load.cuh"
#include "tile_scheduler.cuh"
#include "weight_conversion.cuh"

namespace mmagen {
inline namespace v0_1 {

/// prepared[i]: the activations of stage i are in the order of the fragments.
template <class Config>
struct Sm90MixedPipeline : Sm90Pipeline<Config> {
  static constexpr int kPreparingWarps = 3;  // of the producer's warpgroup

  Barrier prepared[Config::kStages];

  /// As Sm90Pipeline::init().
  CUTE_DEVICE void init(int consumers) {
    Sm90Pipeline<Config>::init(consumers);
    for (Barrier& one : prepared) { one.init(1); }
  }
};

namespace detail {

/// Scales and zero points of the weights, one for each row and group of columns. strides in elements.
template <class Element>
struct GroupTensor {
  Element const* data;
  int64_t ld, batch_stride;

  template <bool kContiguousK>
  CUTE_DEVICE Element const* at(int row, int group, int batch) const {
    Element const* const matrix = data + batch * batch_stride;
    return kContiguousK ? matrix + row * ld + group : matrix + group * ld + row;
  }
};

/// The bits of an element, read through the cache for data that the launch does not write.
template <class Element>
CUTE_DEVICE uint32_t load_bits(Element const* from) {
  if constexpr (sizeof(Element) == 4) {
    return __ldg(reinterpret_cast<uint32_t const*>(from));
  } else if constexpr (sizeof(Element) == 2) {
    return __ldg(reinterpret_cast<uint16_t const*>(from));
  } else {
    return __ldg(reinterpret_cast<uint8_t const*>(from));
  }
}

/// The float with these bits of an Element.
template <class Element>
CUTE_DEVICE float float_of_bits(uint32_t bits) {
  if constexpr (sizeof(Element) == 4) {
    return __uint_as_float(bits);
  } else if constexpr (cute::is_same_v<Element, cute::bfloat16_t>) {
    return __uint_as_float(bits << 16);
  } else {
    return float(Element::bitcast(uint16_t(bits)));
  }
}

CUTE_DEVICE void prefetch_l2(void const* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

/// Makes writes of this thread to shared memory visible to wgmma and TMA.
CUTE_DEVICE void fence_shared_for_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace detail

template <class Config>
struct Sm90MainloopMixed : Sm90TmaLoad<Config> {
  using Load = Sm90TmaLoad<Config>;
  using typename Load::SharedStorage;
  using typename Load::TileScheduler;
  using A = typename Config::A;
  using B = typename Config::B;
  using TiledMma = typename Config::TiledMma;
  using Weights = typename Config::Weights;
  using Scale = typename Weights::Scale;
  using Pipeline = Sm90MixedPipeline<Config>;
  using Lines = AccumulatorLines<Config>;
  using Conversion = WeightConversion<Weights::kType, typename B::Element>;
  static constexpr bool kTakesEmptyK = true;
  static constexpr int kBatchesInFlight = 0;
  static constexpr bool kPreparesStages = true;
  static constexpr int kChunk = Weights::kChunk;
  static constexpr int kChunks = Config::kTileK / kChunk;  // of a stage
  static constexpr int kBlocks = kChunk / 16;              // wgmmas along a chunk
  static constexpr int kRuns = kChunk / 32;                // of 8 elements in a thread's quarter of a chunk
  static constexpr int kRunBytes = Conversion::kBits;
  static constexpr int kQuarterBytes = kRuns * kRunBytes;
  static constexpr int kCountM = Lines::kCountM;
  static constexpr int kAhead = 8;  // k tiles whose scales are prefetched into L2
  static_assert(Config::kTileK % 128 == 0 && 128 % kChunk == 0, "a step of the preparing warps is 128 columns");
  static_assert(B::kLine == 64 && B::kSwizzleBytes == 128, "the preparing warps know this layout");
  static_assert(A::kLine % (4 * kQuarterBytes) == 0 && A::kLine == A::kSwizzleBytes, "a chunk lies in one line");

  struct Params {
    typename Load::Params load;
    detail::GroupTensor<Scale> scales;
    detail::GroupTensor<uint8_t> zeros;
    int rows, groups;
    int row_blocks;  // of 8 rows of activations that TMA loads
  };

  /// CUDA_ERROR_INVALID_VALUE where TMA cannot address A or B. With a K of 0 nothing is loaded.
  static CUresult make_params(Params& params, GemmArguments<Config> const& args) {
    params.rows = int(args.m);
    int const lines = detail::box_lines<B, Config::kClusterM>(args.n);
    params.row_blocks = (lines < B::kBoxAcross ? lines : B::kTileMn) / 8;
    params.groups = Weights::kGroup == 0 ? 1 : int(detail::ceil_div(args.k, Weights::kGroup));
    params.scales = {static_cast<Scale const*>(args.scale_b.data), args.scale_b.ld, args.scale_b.batch_stride};
    if constexpr (Weights::kZeros) {
      params.zeros = {static_cast<uint8_t const*>(args.zero_b.data), args.zero_b.ld, args.zero_b.batch_stride};
    }
    return args.k == 0 ? CUDA_SUCCESS : Load::make_params(params.load, args, true);
  }

  CUTE_DEVICE static void prefetch_descriptors(Params const& params) {
    if (params.load.stage_bytes != 0) { Load::prefetch_descriptors(params.load); }  // with a K of 0 there are no tensor maps
  }

  CUTE_DEVICE static void load(Params const& params, typename TileScheduler::Params const& scheduling, SharedStorage& storage,
                               Pipeline& pipeline) {
    Load::load(params.load, scheduling, storage, pipeline);
  }

  /// The whole run of the preparing warps: all k tiles of all work tiles of this CTA. They take stages in turns, so that one
  /// need not be done before the next is begun. Every warp waits for every stage: it must not be two phases behind.
  CUTE_DEVICE static void prepare(Params const& params, typename TileScheduler::Params const& scheduling,
                                  SharedStorage& storage, Pipeline& pipeline) {
    ClusterCoord<Config> const cluster;
    PipelineState<Config::kStages> pipe;
    TileScheduler scheduler(scheduling, cluster);
    int const lane = int(threadIdx.x) % 32;
    int turn = int(threadIdx.x) % 128 / 32 - 1;  // stages until this warp's next one
    wait_on_dependent_grids();
    for (; scheduler.is_valid(scheduling); scheduler.advance(scheduling)) {
      WorkTileInfo const work = scheduler.work_tile(scheduling);
      auto const tile = cta_tile<Config>(scheduler, scheduling, work, cluster);
      int const first = work.k_begin;
      for (int i = turn; i < kAhead && i < work.k_tiles; i += Pipeline::kPreparingWarps) {
        prefetch_scales(params, tile, first + i, lane, i == 0);
      }
      CUTE_NO_UNROLL
      for (int i = 0; i < work.k_tiles; ++i, ++pipe) {
        pipeline.full[pipe.stage].wait(pipe.phase);
        if (turn == 0) {
          permute(storage.b.begin() + pipe.stage * B::kTileMn * B::kTileK, params.row_blocks, lane);
          detail::fence_shared_for_async();
          __syncwarp();
          if (lane == 0) { pipeline.prepared[pipe.stage].arrive(); }
          if (i + kAhead < work.k_tiles) { prefetch_scales(params, tile, first + i + kAhead, lane, false); }
          turn = Pipeline::kPreparingWarps;
        }
        --turn;
      }
    }
  }

  /// wgmma alone on one stage, for a loop that measures its rate: the fragments are not converted.
  CUTE_DEVICE static auto stage(SharedStorage& storage, int thread) {
    return make_stage_mma<Config, ConstantFragments>(storage, thread);
  }

  /// Multiplies `k_tiles` (at least 1) stages into tCrC, from `pipe` on: k tiles k_begin and following of `tile`. The others as
  /// of Sm90MainloopRs::mma().
  template <class Tile, class TensorRC, class Release, class Issued>
  CUTE_DEVICE static void mma(Params const& params, Tile const& tile, int k_begin, SharedStorage& storage, Pipeline& pipeline,
                              PipelineState<Config::kStages>& pipe, int k_tiles, int thread,
                              TensorRC& tCrC,  // (MMA,MMA_M,MMA_N)
                              Release const& release, Issued const& issued) {
    using namespace cute;
    TiledMma mma;
    auto const thread_mma = mma.get_slice(thread);
    Tensor sB = stages_of<B>(storage.b.begin());                           // (BLK_N,BLK_K,PIPE)
    Tensor tCrB = thread_mma.make_fragment_B(thread_mma.partition_B(sB));  // (MMA,MMA_N,MMA_K,PIPE)
    Tensor sums = make_fragment_like(tCrC);                                // (MMA,MMA_M,MMA_N), of one chunk
    using ShapeA = Shape<Int<Config::kTileM>, Int<kChunk>>;
    auto tCrA_even = make_tensor<typename B::Element>(partition_shape_A(mma, ShapeA{}));  // (MMA,MMA_M,MMA_K)
    auto tCrA_odd = make_fragment_like(tCrA_even);
    GroupFactors factors(params, tile, k_begin * kChunks, Lines(thread));
    QuarterRows const rows(thread);
    uint8_t const* const smem_a = reinterpret_cast<uint8_t const*>(storage.a.begin());
    clear(tCrC);

    auto const load_fragments = [&](auto set, int stage, int chunk) {
      constexpr int kSet = decltype(set)::value;
      auto& tCrA = chosen<kSet>(tCrA_even, tCrA_odd);
      factors.template next<kSet>();
      convert<kSet>(tCrA, smem_a + stage * A::kTileMn * A::kTileK, rows, chunk, factors);
      warpgroup_fence_operand(tCrA);  // or the compiler may convert them after the next wait
    };
    // Multiplies a chunk of the stage at `pipe`, whose fragments are in `set`, and converts the next one's meanwhile.
    auto const multiply = [&](auto set, auto which, bool more) {
      constexpr int kWhich = decltype(which)::value;
      auto& tCrA = chosen<decltype(set)::value>(tCrA_even, tCrA_odd);
      auto const other = Int<1 - decltype(set)::value>{};
      int const stage = pipe.stage;
      if constexpr (kWhich == 0) { pipeline.prepared[stage].wait(pipe.phase); }
      mma.accumulate_ = GMMA::ScaleOut::Zero;
      warpgroup_fence_operand(sums);
      warpgroup_fence_operand(tCrA);
      warpgroup_arrive();
      CUTE_UNROLL
      for (int block = 0; block < kBlocks; ++block) {
        gemm(mma, tCrA(_, _, block), tCrB(_, _, kWhich * kBlocks + block, stage), sums);  // (V,M) x (V,N) => (V,M,N)
        mma.accumulate_ = GMMA::ScaleOut::One;
      }
      warpgroup_commit_batch();
      warpgroup_fence_operand(sums);
      // Hazard: without a branch around the conversion ptxas moves the wait before it.
      if constexpr (kWhich + 1 < kChunks) {
        if (params.rows > 0) { load_fragments(other, stage, kWhich + 1); }
      } else {
        ++pipe;
        if (more) {
          pipeline.full[pipe.stage].wait(pipe.phase);
          load_fragments(other, pipe.stage, 0);
        } else {
          issued();
        }
      }
      warpgroup_wait<0>();
      warpgroup_fence_operand(sums);
      warpgroup_fence_operand(tCrA);  // keeps its registers from being used for the other set while wgmma reads them
      if constexpr (kWhich + 1 == kChunks) { release(stage); }
      factors.template add<decltype(set)::value>(sums, tCrC);
    };
    auto const k_tile = [&](auto set, bool more) {
      for_each(make_int_sequence<kChunks>{},
               [&](auto which) { multiply(Int<(decltype(set)::value + decltype(which)::value) % 2>{}, which, more); });
    };

    pipeline.full[pipe.stage].wait(pipe.phase);
    load_fragments(_0{}, pipe.stage, 0);
    if constexpr (kChunks % 2 == 0) {
      CUTE_NO_UNROLL
      for (int i = 0; i < k_tiles; ++i) { k_tile(_0{}, i + 1 < k_tiles); }
    } else {
      CUTE_NO_UNROLL
      for (int i = 0; i < k_tiles; i += 2) {
        k_tile(_0{}, i + 1 < k_tiles);
        if (i + 1 < k_tiles) { k_tile(_1{}, i + 2 < k_tiles); }
      }
    }
  }

 private:
  /// One of two sets.
  template <int kSet, class T>
  CUTE_DEVICE static T& chosen(T& even, T& odd) {
    if constexpr (kSet == 0) {
      return even;
    } else {
      return odd;
    }
  }

  /// Fragments of A that nobody loads, as operands of a Sm90StageMma.
  struct ConstantFragments {
    template <class TensorS, class ThreadMma>
    CUTE_DEVICE static auto fragments(TensorS const&, ThreadMma const&) {
      using namespace cute;
      using ShapeA = Shape<Int<Config::kTileM>, Int<Config::kTileK>>;
      auto tCrA = make_tensor<typename B::Element>(partition_shape_A(TiledMma{}, ShapeA{}));  // (MMA,MMA_M,MMA_K)
      fill(tCrA, typename B::Element(float(threadIdx.x % 8)));
      return tCrA;
    }
    template <class TensorS, class TensorR>
    CUTE_DEVICE static void load(TensorS const&, TensorR&, int, int) {}
    template <class TensorR>
    CUTE_DEVICE static TensorR const& stage(TensorR const& tCrA, int) {
      return tCrA;
    }
  };

  /// Where a thread's quarters of rows begin in the tile of A, (bytes): those of atom 0, row 0 of two; TMA's swizzle is a
  /// function of the row within 8, which all rows of a thread have in common.
  struct QuarterRows {
    int first;

    CUTE_DEVICE explicit QuarterRows(int thread) {
      Lines const lines(thread);
      int const row = (lines.row(0) + lines.row_of_lane) * A::kLine;
      constexpr int kSwizzled = A::kSwizzleBytes - 16;  // bits of an address, from 4 on
      first = row + ((lines.column_of_lane / 2 * kQuarterBytes) ^ ((row >> 3) & kSwizzled));
    }

    /// Of row `row` (0 or 1: 8 further) of atom `m`, with the vector that begins at byte `byte` of the quarter, of a chunk.
    CUTE_DEVICE int at(int m, int row, int chunk, int byte) const {
      constexpr int kOfLine = A::kLine / (4 * kQuarterBytes);  // chunks
      int const panel = chunk / kOfLine * A::kTileMn * A::kLine;
      int const rows = m * Lines::kMmaM * Lines::kWarpgroupsM + row * 8;
      return panel + rows * A::kLine + (first ^ (chunk % kOfLine * 4 * kQuarterBytes + byte));
    }
  };

  /// The scales and zero points of a thread's rows, in two sets as the fragments are. Those of a chunk are read while the chunk
  /// before it is multiplied, zero points one chunk earlier.
  struct GroupFactors {
    Scale const* scale_of[kCountM][2];
    uint8_t const* zero_of[kCountM][2];
    uint32_t scale_bits[2][kCountM][2];  // (set, atom, row)
    uint32_t zero_bits[2][kCountM][2];
    int64_t scale_step, zero_step;
    int chunk, last_group;  // chunk: which is converted next

    /// chunk: the first one.
    template <class Tile>
    CUTE_DEVICE GroupFactors(Params const& params, Tile const& tile, int chunk, Lines const& lines)
        : scale_step(Weights::kContiguousK ? 1 : params.scales.ld),
          zero_step(Weights::kContiguousK ? 1 : params.zeros.ld),
          chunk(chunk),
          last_group(params.groups - 1) {
      CUTE_UNROLL
      for (int m = 0; m < kCountM; ++m) {
        CUTE_UNROLL
        for (int i = 0; i < 2; ++i) {
          // Rows behind the last one make elements that are not stored.
          int const row = cute::min(tile.m * Config::kTileM + lines.row(m) + lines.row_of_lane + 8 * i, params.rows - 1);
          scale_of[m][i] = params.scales.template at<Weights::kContiguousK>(row, 0, tile.batch);
          if constexpr (Weights::kZeros) {
            zero_of[m][i] = params.zeros.template at<Weights::kContiguousK>(row, 0, tile.batch);
          }
        }
      }
      if constexpr (Weights::kZeros) { load(zero_bits[0], zero_of, group(chunk) * zero_step); }
    }

    /// Begins to read the scales of the chunk that set kSet is for, and the zero points of the next one.
    template <int kSet>
    CUTE_DEVICE void next() {
      load(scale_bits[kSet], scale_of, group(chunk) * scale_step);
      ++chunk;
      if constexpr (Weights::kZeros) { load(zero_bits[1 - kSet], zero_of, group(chunk) * zero_step); }
    }

    template <int kSet>
    CUTE_DEVICE uint32_t zero(int m, int row) const {
      return Conversion::zero_of(Weights::kZeros ? zero_bits[kSet][m][row] : 0);
    }

    /// Adds the sums of a chunk, scaled.
    template <int kSet, class TensorS, class TensorRC>
    CUTE_DEVICE void add(TensorS const& sums, TensorRC& tCrC) const {
      CUTE_UNROLL
      for (int m = 0; m < kCountM; ++m) {
        float const scale[2] = {detail::float_of_bits<Scale>(scale_bits[kSet][m][0]),
                                detail::float_of_bits<Scale>(scale_bits[kSet][m][1])};
        CUTE_UNROLL
        for (int n = 0; n < Lines::kCountN; ++n) {
          CUTE_UNROLL
          for (int i = 0; i < Lines::kMmaN / 2; ++i) {
            tCrC(i, m, n) = __fmaf_rn(scale[i / 2 % 2], sums(i, m, n), tCrC(i, m, n));
          }
        }
      }
    }

   private:
    /// The last chunks of the last k tile may lie behind K.
    CUTE_DEVICE int64_t group(int of_chunk) const {
      if constexpr (Weights::kGroup == 0) {
        return 0;
      } else {
        return cute::min(of_chunk / (Weights::kGroup / kChunk), last_group);
      }
    }

    template <class Element>
    CUTE_DEVICE static void load(uint32_t (&bits)[kCountM][2], Element const* const (&from)[kCountM][2], int64_t offset) {
      CUTE_UNROLL
      for (int i = 0; i < 2 * kCountM; ++i) { bits[i / 2][i % 2] = detail::load_bits(from[i / 2][i % 2] + offset); }
    }
  };

  /// Loads and converts a chunk's fragments of A.
  template <int kSet, class TensorRA>
  CUTE_DEVICE static void convert(TensorRA& tCrA, uint8_t const* stage, QuarterRows const& rows, int chunk,
                                  GroupFactors const& factors) {
    using namespace cute;
    Tensor words = recast<uint32_t>(tCrA);  // (4,MMA_M,MMA_K): rows, then halves of 16 columns
    constexpr int kVector = kQuarterBytes < 16 ? kQuarterBytes : 16;
    using Vector = std::conditional_t<kVector == 16, uint4, std::conditional_t<kVector == 8, uint2, uint32_t>>;
    CUTE_UNROLL
    for (int m = 0; m < kCountM; ++m) {
      CUTE_UNROLL
      for (int row = 0; row < 2; ++row) {
        alignas(16) uint32_t quarter[kQuarterBytes / 4];
        CUTE_UNROLL
        for (int byte = 0; byte < kQuarterBytes; byte += kVector) {
          *reinterpret_cast<Vector*>(quarter + byte / 4) =
              *reinterpret_cast<Vector const*>(stage + rows.at(m, row, chunk, byte));
        }
        uint32_t const zero = factors.template zero<kSet>(m, row);
        for_each(make_int_sequence<4 * kRuns>{}, [&](auto at) {
          constexpr int kRun = decltype(at)::value / 4;
          constexpr int kPlace = decltype(at)::value % 4;
          words(row + kPlace % 2 * 2, m, 2 * kRun + kPlace / 2) =
              Conversion::template pair<kPlace>(quarter + kRun * Conversion::kWords, zero);
        });
      }
    }
  }

  /// Puts a stage of activations into the order of the fragments. A warp's step is 8 rows x 128 columns, four times 16 bytes
  /// for each lane: lanes of a quarter warp access 8 rows of the same column, which the swizzle puts into different banks.
  CUTE_DEVICE static void permute(typename B::Element* stage, int row_blocks, int lane) {
    constexpr int kSteps = B::kTileK / 128;  // along K
    int const row = lane % 8;
    int const task = lane / 8;
    int const chunk = task / kRuns;  // of 128 columns
    int const run = task % kRuns;
    CUTE_NO_UNROLL
    for (int step = 0; step < kSteps * row_blocks; ++step) {
      int const row_block = step / kSteps;
      int const columns = step % kSteps * 16 + chunk * 4 * kRuns;  // in units of 8
      auto const unit = [&](int column) {
        int const line = column / 8 * B::kTileMn + row_block * 8 + row;
        return reinterpret_cast<uint4*>(stage + line * 64 + (column % 8 ^ row) * 8);
      };
      uint4 from[4];
      CUTE_UNROLL
      for (int q = 0; q < 4; ++q) { from[q] = *unit(columns + q * kRuns + run); }
      __syncwarp();
      merge(unit(columns + 4 * run), from, [](uint4 const& x) { return __byte_perm(x.x, x.z, 0x5410); });
      merge(unit(columns + 4 * run + 1), from, [](uint4 const& x) { return __byte_perm(x.x, x.z, 0x7632); });
      merge(unit(columns + 4 * run + 2), from, [](uint4 const& x) { return __byte_perm(x.y, x.w, 0x5410); });
      merge(unit(columns + 4 * run + 3), from, [](uint4 const& x) { return __byte_perm(x.y, x.w, 0x7632); });
    }
  }

  /// Stores one pair of each thread's elements, which `pair_of` takes from them.
  template <class PairOf>
  CUTE_DEVICE static void merge(uint4* to, uint4 const (&from)[4], PairOf const& pair_of) {
    *to = {pair_of(from[0]), pair_of(from[1]), pair_of(from[2]), pair_of(from[3])};
  }

  /// Prefetches the scales of a k tile into L2. first: of those of this work tile.
  template <class Tile>
  CUTE_DEVICE static void prefetch_scales(Params const& params, Tile const& tile, int k_tile, int lane, bool first) {
    if constexpr (Weights::kGroup == 0) {
      if (!first) { return; }
    }
    constexpr int kStep = 32 / int(sizeof(Scale));  // elements of a sector
    CUTE_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      int const group = Weights::kGroup == 0 ? 0 : (k_tile * kChunks + chunk) / cute::max(Weights::kGroup / kChunk, 1);
      if (group >= params.groups || (Weights::kContiguousK && group % kStep != 0 && !(first && chunk == 0))) { continue; }
      constexpr int kLines = Weights::kContiguousK ? 1 : kStep;
      for (int line = lane * kLines; line < Config::kTileM; line += 32 * kLines) {
        int const row = tile.m * Config::kTileM + line;
        if (row < params.rows) {
          detail::prefetch_l2(params.scales.template at<Weights::kContiguousK>(row, group, tile.batch));
          if constexpr (Weights::kZeros) {
            detail::prefetch_l2(params.zeros.template at<Weights::kContiguousK>(row, group, tile.batch));
          }
        }
      }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
