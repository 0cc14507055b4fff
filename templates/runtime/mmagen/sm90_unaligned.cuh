// Kernel without TMA loads, for operands whose rows do not begin at 16-byte boundaries: threads load the next k tile while
// wgmma multiplies the current one. wgmma and the epilogue are the same as in the other kernels.
//
// An operand consists of lines along its contiguous mode. Whole aligned vectors of a line are loaded and shifted into place;
// the ends of the line, before the first and after the last of these vectors, are copied element by element. Nothing outside a
// line is read.
#pragma once

#include <cute/tensor.hpp>

#include "gemm_arguments.cuh"
#include "sm90_stage_mma.cuh"
#include "sm90_tensor_map.cuh"
#include "sm90_tma.cuh"
#include "status.cuh"
#include "tile_raster.cuh"
#include "vector_pair.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct UnalignedParams {
  GemmArguments<Config> args;
  typename Config::Epilogue::Params epilogue;
  typename Config::Mainloop::Scales scales;
  TileRaster raster;
};

/// Threads of a CTA: those of the TiledMMA.
template <class Config>
inline constexpr int kUnalignedThreads = decltype(cute::size(typename Config::TiledMma{}))::value;

/// The first two of the Config's stages: one is multiplied, the other one written.
template <class Config>
struct UnalignedStorage {
  using A = typename Config::A;
  using B = typename Config::B;
  alignas(1024) cute::ArrayEngine<typename A::Element, 2 * A::kTileMn * A::kTileK> a;
  alignas(1024) cute::ArrayEngine<typename B::Element, 2 * B::kTileMn * B::kTileK> b;
  alignas(1024) typename Config::Epilogue::SharedStorage epilogue;
  typename Config::Epilogue::SourceBarriers source;
};

namespace detail {

/// Copies k tiles of an operand's rows to stages, (BLK_MN,BLK_K,PIPE). All kThreads threads of the CTA take part.
template <class Operand, int kThreads>
class UnalignedCopy {
  using Element = typename Operand::Element;
  static constexpr int kVector = 16 / int(sizeof(Element));  // elements
  static constexpr int kAlong = Operand::kContiguousK ? Operand::kTileK : Operand::kTileMn;
  static constexpr int kAcross = Operand::kContiguousK ? Operand::kTileMn : Operand::kTileK;
  static constexpr int kVectorsOfLine = kAlong / kVector;
  static constexpr int kVectorsOfTile = kAcross * kVectorsOfLine;
  static constexpr int kLines = kThreads / kVectorsOfLine;  // that the threads copy at once
  static constexpr bool kEven = kVectorsOfTile % kThreads == 0;
  // All vectors of a thread have the same place in their lines, the same misalignment and the same place in a swizzle.
  static constexpr bool kRegular = kThreads % kVectorsOfLine == 0 && kLines % 8 == 0 && kLines * int(sizeof(Element)) % 16 == 0;

 public:
  static constexpr int kVectors = (kVectorsOfTile + kThreads - 1) / kThreads;  // of a thread

  /// `along`, `across`: extents of the contiguous mode and of the other; `first_mn`: where the tile begins.
  CUTE_DEVICE UnalignedCopy(Element const* matrix, int64_t ld, int along, int across, int first_mn)
      : matrix_(matrix), ld_(ld), along_(along), across_(across), first_mn_(first_mn) {
    misalignment_ = misalignment(line_of(0, 0) + first_along(0) + along_of(0));
  }

  /// Is every vector of a k tile inside its line, with its neighbours? The same for all threads.
  CUTE_DEVICE bool is_inside(int k_tile) const {
    return !has_ends(k_tile) && (Operand::kContiguousK || first_across(k_tile) + kAcross <= across_);
  }

  /// Loads the vectors that contain the thread's vector `i` of a k tile, with zeros in place of ends and of elements beyond K.
  /// kInside: there are none of these.
  template <bool kInside>
  CUTE_DEVICE void load(VectorPair& pair, int i, int k_tile) const {
    if (!is_vector(i)) { return; }
    int const at = first_along(k_tile) + along_of(i);
    int const begin = at - misalignment_of(i, k_tile);  // of the aligned vector that holds the first element
    auto const* const from = reinterpret_cast<uint4 const*>(line_of(i, k_tile) + begin);
    if constexpr (kInside) {
      pair.low = __ldg(from);
      pair.high = __ldg(from + 1);
    } else {
      bool const exists = Operand::kContiguousK || first_across(k_tile) + across_of(i) < across_;
      pair = {};
      if (exists && begin >= 0 && begin + kVector <= along_) { pair.low = __ldg(from); }
      if (exists && begin < at && begin + 2 * kVector <= along_) { pair.high = __ldg(from + 1); }
    }
  }

  template <class TensorS>
  CUTE_DEVICE void store(VectorPair const& pair, int i, int k_tile, TensorS const& sX, int stage) const {
    if (!is_vector(i)) { return; }
    auto* to = reinterpret_cast<uint4*>(&element(sX, along_of(i), across_of(kRegular ? 0 : i), stage));
    if (kRegular) { to += i * kLines * Operand::kLine / kVector; }
    *to = pair.template shifted<int(sizeof(Element))>(unsigned(misalignment_of(i, k_tile)) * unsigned(sizeof(Element)));
  }

  /// Can lines have ends within a k tile? The same for all threads.
  CUTE_DEVICE bool has_ends(int k_tile) const {
    int const first = first_along(k_tile);
    return first < kVector || first + kAlong > along_ - kVector;
  }

  /// Copies the ends of all lines within a k tile. A barrier must separate this from store().
  template <class TensorS>
  CUTE_DEVICE void copy_ends(int k_tile, TensorS const& sX, int stage) const {
    int const first = first_along(k_tile);
    constexpr int kEnds = kAcross * 2 * kVector;
#pragma unroll 4
    for (int j = 0; j < (kEnds + kThreads - 1) / kThreads; ++j) {
      int const i = int(threadIdx.x) + j * kThreads;
      if (kEnds % kThreads != 0 && i >= kEnds) { return; }
      int const across = i / (2 * kVector);
      bool const at_begin = i / kVector % 2 == 0;
      Element const* const line = matrix_ + (first_across(k_tile) + across) * ld_;
      int const begin = cute::min((kVector - misalignment(line)) % kVector, along_);  // of the whole vectors
      int const end = cute::max(begin, along_ - misalignment(line + along_));
      int const at = (at_begin ? 0 : end) + i % kVector;
      bool const is_end = at < (at_begin ? begin : along_) && first_across(k_tile) + across < across_;
      if (is_end && at >= first && at < first + kAlong) { element(sX, at - first, across, stage) = line[at]; }
    }
  }

 private:
  /// Is vector `i` of the thread in the tile? Others could be in any line, with another misalignment.
  CUTE_DEVICE static bool is_vector(int i) { return kEven || across_of(i) < kAcross; }

  CUTE_DEVICE int misalignment_of(int i, int k_tile) const {
    return kRegular ? misalignment_ : misalignment(line_of(i, k_tile) + first_along(k_tile) + along_of(i));
  }

  /// Where the thread's vector `i` begins within a tile.
  CUTE_DEVICE static int along_of(int i) {
    return (int(threadIdx.x) + (kRegular ? 0 : i * kThreads)) % kVectorsOfLine * kVector;
  }
  CUTE_DEVICE static int across_of(int i) {
    return kRegular ? int(threadIdx.x) / kVectorsOfLine + i * kLines : (int(threadIdx.x) + i * kThreads) / kVectorsOfLine;
  }

  CUTE_DEVICE int first_along(int k_tile) const { return Operand::kContiguousK ? k_tile * kAlong : first_mn_; }
  CUTE_DEVICE int first_across(int k_tile) const { return Operand::kContiguousK ? first_mn_ : k_tile * kAcross; }

  /// The line of the thread's vector `i`. If that line is outside the operand, the line of vector 0 is used, or, if this is
  /// also outside, the last line. That does no harm: rows and columns outside D are not stored, and elements beyond K are not
  /// loaded.
  CUTE_DEVICE Element const* line_of(int i, int k_tile) const {
    int const first = first_across(k_tile) + across_of(0);
    int const line = first_across(k_tile) + across_of(i);
    return matrix_ + (line < across_ ? line : cute::min(first, across_ - 1)) * ld_;
  }

  template <class TensorS>
  CUTE_DEVICE static Element& element(TensorS const& sX, int along, int across, int stage) {
    return sX(Operand::kContiguousK ? across : along, Operand::kContiguousK ? along : across, stage);
  }

  Element const* matrix_;
  int64_t ld_;
  int along_, across_, first_mn_;
  int misalignment_;  // of all vectors, if kRegular
};

/// Copies the k tiles of one output tile. Each is loaded in rounds of as many vectors as the registers of a thread can hold.
/// After a round has been stored, the loads of the next one are issued, which may belong to the next k tile.
template <class Config>
class UnalignedCopies {
  using A = typename Config::A;
  using B = typename Config::B;
  static constexpr int kThreads = kUnalignedThreads<Config>;
  using CopyA = UnalignedCopy<A, kThreads>;
  using CopyB = UnalignedCopy<B, kThreads>;
  using Storage = UnalignedStorage<Config>;
  static constexpr int kVectors = CopyA::kVectors + CopyB::kVectors;
  // A pair of vectors takes 8 registers, beside the sums and those that a promoting mainloop has not added up yet.
  static constexpr int kSums = Config::kTileM * Config::kTileN / kThreads + Config::Mainloop::kPartialSums;
  static constexpr int kMost = kSums >= 192 ? 2 : kSums >= 128 ? 4 : kSums > 64 ? 6 : 8;
  static constexpr int kRounds = (kVectors + kMost - 1) / kMost;
  static constexpr int kEach = (kVectors + kRounds - 1) / kRounds;

 public:
  CUTE_DEVICE UnalignedCopies(GemmArguments<Config> const& args, TileCoord const& tile, Storage& storage)
      : a_(args.a + tile.batch * args.batch_stride_a, args.lda, int(A::kContiguousK ? args.k : args.m),
           int(A::kContiguousK ? args.m : args.k), tile.m * Config::kTileM),
        b_(args.b + tile.batch * args.batch_stride_b, args.ldb, int(B::kContiguousK ? args.k : args.n),
           int(B::kContiguousK ? args.n : args.k), tile.n * Config::kTileN),
        sA_(stages_of<A>(storage.a.begin())),
        sB_(stages_of<B>(storage.b.begin())),
        k_tiles_((int(args.k) + Config::kTileK - 1) / Config::kTileK) {}

  CUTE_DEVICE int k_tiles() const { return k_tiles_; }

  /// Issues the loads of the first round of a k tile, if there is one.
  CUTE_DEVICE void load_first(int k_tile) { load(cute::_0{}, k_tile); }

  /// Stores the first round of a k tile, after which its stage must not be read, and calls between(); then copies the rest.
  /// Without such a k tile only calls between().
  template <class Between>
  CUTE_DEVICE void copy(int k_tile, Between const& between) {
    int const stage = k_tile % 2;
    cute::for_each(cute::make_int_sequence<kRounds>{}, [&](auto round) {
      constexpr int kNext = (decltype(round)::value + 1) % kRounds;
      if (k_tile < k_tiles_) { store(round, k_tile, stage); }
      load(cute::Int<kNext>{}, kNext == 0 ? k_tile + 1 : k_tile);
      if (round == 0) { between(); }
    });
    if (k_tile < k_tiles_ && (a_.has_ends(k_tile) || b_.has_ends(k_tile))) {
      __syncthreads();
      a_.copy_ends(k_tile, sA_, stage);
      b_.copy_ends(k_tile, sB_, stage);
    }
    fence_view_async_shared();
  }

 private:
  template <class Round>
  CUTE_DEVICE void load(Round, int k_tile) {
    constexpr int kBegin = Round::value * kEach;
    constexpr int kOfA = cute::min(kEach, cute::max(0, CopyA::kVectors - kBegin));
    constexpr int kBeginB = cute::max(0, kBegin - CopyA::kVectors);
    if (k_tile >= k_tiles_) { return; }
    load<0, kOfA>(a_, kBegin, k_tile);
    load<kOfA, cute::min(kEach - kOfA, CopyB::kVectors - kBeginB)>(b_, kBeginB, k_tile);
  }

  /// Loads kCount vectors from `begin` on into the pairs from kPair on.
  template <int kPair, int kCount, class Copy>
  CUTE_DEVICE void load(Copy const& copy, int begin, int k_tile) {
    if (copy.is_inside(k_tile)) {
      CUTE_UNROLL
      for (int j = 0; j < kCount; ++j) { copy.template load<true>(pairs_[kPair + j], begin + j, k_tile); }
    } else {
      CUTE_UNROLL
      for (int j = 0; j < kCount; ++j) { copy.template load<false>(pairs_[kPair + j], begin + j, k_tile); }
    }
  }

  template <class Round>
  CUTE_DEVICE void store(Round, int k_tile, int stage) const {
    CUTE_UNROLL
    for (int j = 0; j < kEach; ++j) {
      int const i = Round::value * kEach + j;
      if (i < CopyA::kVectors) {
        a_.store(pairs_[j], i, k_tile, sA_, stage);
      } else if (i < kVectors) {
        b_.store(pairs_[j], i - CopyA::kVectors, k_tile, sB_, stage);
      }
    }
  }

  CopyA a_;
  CopyB b_;
  decltype(stages_of<A>(nullptr)) sA_;  // (BLK_M,BLK_K,PIPE)
  decltype(stages_of<B>(nullptr)) sB_;  // (BLK_N,BLK_K,PIPE)
  int k_tiles_;
  VectorPair pairs_[kEach];
};

}  // namespace detail

/// Grid: one CTA of the TiledMMA's threads for each tile of each batch. Dynamic shared memory: UnalignedStorage.
template <class Config>
__global__ void __launch_bounds__(kUnalignedThreads<Config>, 1)
    sm90_unaligned_kernel(__grid_constant__ UnalignedParams<Config> const params) {
  using namespace cute;
  using Mainloop = typename Config::Mainloop;
  using Epilogue = typename Config::Epilogue;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& storage = *reinterpret_cast<UnalignedStorage<Config>*>(smem);

  TileCoord const tile = params.raster(blockIdx.x);
  detail::UnalignedCopies<Config> copies(params.args, tile, storage);
  auto stage_mma = make_stage_mma<Config, typename Mainloop::OperandA>(storage, threadIdx.x);
  Tensor tCrC = partition_fragment_C(stage_mma.mma, Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
  clear(tCrC);

  copies.load_first(0);
  copies.copy(0, [] {});
  __syncthreads();
  CUTE_NO_UNROLL
  for (int k_tile = 0; k_tile < copies.k_tiles(); ++k_tile) {
    copies.copy(k_tile + 1, [&] {
      if constexpr (Mainloop::kScalesK) {
        Mainloop::mma_and_wait(stage_mma, k_tile % 2, tCrC, params.scales, tile, k_tile);
      } else {
        Mainloop::mma_and_wait(stage_mma, k_tile % 2, tCrC);
      }
    });
    __syncthreads();
  }
  if constexpr (Mainloop::kScalesTile) { Mainloop::scale_tile(params.scales, tile, threadIdx.x, tCrC); }

  typename Epilogue::Slices slices;
  Epilogue::init(params.epilogue, storage.source, threadIdx.x / 32, threadIdx.x % 32);
  CUTE_NO_UNROLL
  for (int split = 0; split < Config::TileScheduler::kSplitK; ++split) {
    Epilogue::store(params.epilogue, storage.epilogue, storage.source, tCrC, tile, split, threadIdx.x, threadIdx.x / 32,
                    slices);
  }
  Epilogue::wait_for_stores();
}

template <class Config>
Status run_sm90_unaligned(GemmArguments<Config> const& args, cudaStream_t stream, Launch launch) {
  // The kernel for which the call was made may have larger tiles.
  Status status = check_extents<Config>(args.shape());
  if (status != Status::kSuccess) { return status; }
  UnalignedParams<Config> params{};
  params.args = args;
  params.scales = Config::Mainloop::make_scales(args);
  CUresult encoded = CUDA_SUCCESS;
  status = encode_in_context(encoded, [&] { return Config::Epilogue::make_params(params.epilogue, args); });
  if (status != Status::kSuccess) { return status; }
  if (encoded != CUDA_SUCCESS) { return status_of(cudaError_t(encoded)); }
  unsigned const tiles_m = unsigned(detail::ceil_div(args.m, Config::kTileM));
  unsigned const tiles_n = unsigned(detail::ceil_div(args.n, Config::kTileN));
  params.raster = TileRaster(tiles_m, tiles_n, 8);
  unsigned const ctas = tiles_m * tiles_n * unsigned(args.batch);
  return launch_kernel(&sm90_unaligned_kernel<Config>, ctas, kUnalignedThreads<Config>, int(sizeof(UnalignedStorage<Config>)),
                       stream, launch, params);
}

}  // namespace v0_1
}  // namespace mmagen
