// SPDX-License-Identifier: MIT-0
// Epilogue of the sm_90 kernels: accumulators -> functor -> shared memory -> TMA -> D.
//
// Warpgroups are independent. A warpgroup holds the 64 rows of a wgmma and stores them in slices of kSliceN columns, through
// buffers of its own: no other warpgroup writes them or waits for their stores. One thread stores a slice of all four warps,
// since TMA moves one large box in less time than four small ones. The store of a slice overlaps the computation of the next
// one, and the last stores of a tile overlap the next tile's mainloop.
//
// If beta is not 0, TMA loads slices of C to the same buffers, as far ahead as there are buffers, and D overwrites C there. If
// the epilogue has no C, a second matrix of D's type is loaded in the same way.
#pragma once

#include <climits>

#include <cute/tensor.hpp>

#include "epilogue_functor.cuh"
#include "further_tensors.cuh"
#include "gemm_arguments.cuh"
#include "sm90_cluster.cuh"
#include "sm90_maps_of_d.cuh"
#include "sm90_slice_beside.cuh"
#include "sm90_staged_slice.cuh"
#include "sm90_tensor_map.cuh"
#include "sm90_tma.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Functor_: computes elements of D from accumulators and C, see linear_combination.cuh and epilogue_functor.cuh.
template <class Config, class Functor_>
struct Sm90EpilogueTma {
  using Functor = Functor_;
  using Called = EpilogueFunctor<Functor>;
  using ElementD = typename Config::ElementD;
  using TiledMma = typename Config::TiledMma;

  struct alignas(128) Params : Sm90MapsOfD<Config, kSumsOfElement<Functor>> {
    CUtensorMap map_source;  // if tma_loads: of C, or of a second matrix
    int m, n;
    int tile_n, buffers;  // with Config::kTileNAtLaunch: columns of a tile that are computed, and buffers of a warpgroup
    ElementD const* c;
    int64_t ldc, batch_stride_c;
    ElementD* d;
    int64_t ldd, batch_stride_d;
    int tma_end;     // threads store the slices that end beyond this column of D (row, if D is column-major)
    bool tma_loads;  // else what is read is loaded element by element
    typename Functor::Params functor;
  };

  struct SharedStorage {
    alignas(1024) unsigned char d[Config::kEpilogueBytes];
  };

  static constexpr int kRows = 64;                       // of a wgmma, 16 in each warp: PTX ISA, "Register Fragments for wgmma"
  static constexpr int kPair = kSumsOfElement<Functor>;  // columns of sums for one of D
  static constexpr int kSliceN = Config::kSliceN;        // of sums
  static constexpr int kSliceD = kSliceN / kPair;        // of D
  static constexpr int kSliceBytes = kRows * kSliceD * int(sizeof(ElementD));
  static constexpr int kBuffers = Config::kEpilogueBuffers;          // of a warpgroup, which SharedStorage holds
  static constexpr int kMostBuffers = Config::kMostEpilogueBuffers;  // of launches that have fewer stages, see Sm90Stages
  static_assert(kMostBuffers == 1 || kMostBuffers == 2, "what Part::buffer and Part::parity compute");
  using Slice = Sm90StagedSlice<ElementD, Config::kDRowMajor, kRows, kSliceD>;
  static constexpr int kWarpRows = Slice::kWarpRows;
  static constexpr int kPitch = Slice::kPitch;
  static constexpr int kMmaM = kRows;
  static constexpr int kMmaN = decltype(cute::size<1>(typename TiledMma::AtomShape_MNK{}))::value;
  static constexpr int kWarpgroupsM = decltype(cute::size<1>(typename TiledMma::ThrLayoutVMNK{}))::value;
  static constexpr int kWarpgroupsN = decltype(cute::size<2>(typename TiledMma::ThrLayoutVMNK{}))::value;
  static constexpr int kCountM = Config::kTileM / (kMmaM * kWarpgroupsM);  // atoms of a warpgroup
  static constexpr int kCountN = Config::kTileN / (kMmaN * kWarpgroupsN);
  static constexpr int kSlicesOfAtom = kMmaN / kSliceN;
  static constexpr int kSlices = kCountM * kCountN * kSlicesOfAtom;          // of a warpgroup
  static constexpr int kOfSplit = kSlices / Config::TileScheduler::kSplitK;  // that one CTA stores
  static_assert(kMmaN % kSliceN == 0 && kSliceN % 8 == 0, "slices tile the atom");
  static_assert(!Config::kTileNAtLaunch || (kCountN == 1 && kWarpgroupsN == 1), "what skips() compares");
  static_assert(kSlices % Config::TileScheduler::kSplitK == 0, "CTAs that share a tile store the same number of slices");
  static constexpr int kStoring = Config::kEpilogueBytes / (kBuffers * kSliceBytes);  // warpgroups
  static_assert(kStoring * kBuffers * kSliceBytes == Config::kEpilogueBytes, "the plan and the kernel disagree");
  static constexpr int kNamedBarrier = 8;  // + warpgroup; those below belong to schedules and tile schedulers
  static_assert(kNamedBarrier + kStoring <= 16, "a CTA has 16 named barriers");

  /// For each warpgroup that stores: TMA has loaded a slice of C to a buffer.
  struct SourceBarriers {
    Barrier of_buffer[kStoring * kMostBuffers];
  };

  /// If TMA cannot address D, threads store all of it.
  static CUresult make_params(Params& params, GemmArguments<Config> const& args, int tile_n = Config::kTileN,
                              int buffers = kBuffers) {
    int64_t const columns = args.n / kPair;
    MatrixExtent const d = {Config::kDRowMajor ? columns : args.m, Config::kDRowMajor ? args.m : columns, args.batch, args.ldd,
                            args.batch_stride_d};
    constexpr int kAlong = Config::kDRowMajor ? kSliceD : Slice::kBoxRows;
    constexpr int kAcross = Config::kDRowMajor ? Slice::kBoxRows : kSliceD;
    params.m = int(args.m);
    params.n = int(args.n);
    params.tile_n = tile_n;
    params.buffers = buffers;
    params.c = args.c;
    params.ldc = args.ldc;
    params.batch_stride_c = args.batch_stride_c;
    params.d = args.d;
    params.ldd = args.ldd;
    params.batch_stride_d = args.batch_stride_d;
    params.functor = functor_params<Functor>(args);
    CUresult const result = params.encode(args.d, d, tile_n, kAlong, kAcross, kPitch);
    FurtherTensor source = {nullptr, 0, 0};
    if constexpr (kStagesMatrix) {
      source = matrix_for_map(Functor::staged_matrix(params.functor), args);
    } else if (Functor::reads_source(args.epilogue)) {
      source = {const_cast<ElementD*>(args.c), args.ldc, args.batch_stride_c};
    }
    params.tma_loads = false;
    if (source.data != nullptr) {
      MatrixExtent const extent = {d.along, d.across, args.batch, source.ld, source.batch_stride};
      CUresult const encoded = encode_tensor_map<ElementD>(params.map_source, source.data, extent, kAlong, kAcross, kPitch);
      if (encoded != CUDA_SUCCESS && encoded != CUDA_ERROR_INVALID_VALUE) { return encoded; }
      params.tma_loads = encoded == CUDA_SUCCESS;
    }
    bool const ragged = d.along * int64_t(sizeof(ElementD)) % 16 != 0;  // TMA stores multiples of 16 bytes
    params.tma_end = result == CUDA_ERROR_INVALID_VALUE ? 0 : ragged ? int(d.along) : INT_MAX;
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
  }

  CUTE_DEVICE static void prefetch_descriptors(Params const& params) {
    if (params.tma_end > 0) { params.prefetch(launched_tile_n<Config>(params), params.n); }
    if (params.tma_loads) { tma_prefetch_descriptor(&params.map_source); }
  }

  using BesideTile = Sm90BesideTile<Called, kSliceN, kCountM, kCountN * kSlicesOfAtom>;

  /// Numbers of slices of a warpgroup so far; slices use its buffers in turn.
  struct Slices {
    unsigned stored = 0;  // or being stored
    unsigned loaded = 0;  // of C: as many, or those of the next tile too
    bool begun = false;   // was begin() called for the next tile?
    int acquired = -1;    // the group whose tensor maps the leading thread may use, where groups have their own
    BesideTile beside;    // of that tile, if it was
  };

  /// Call in all warps of every consumer warpgroup, before the functions below: it has a barrier. `warp`: among these warps.
  CUTE_DEVICE static void init(Params const& params, SourceBarriers& barriers, int warp, int lane) {
    if (!params.tma_loads) { return; }
    if (warp % 4 == 0 && lane == 0) {
      for (int i = 0; i < kMostBuffers; ++i) { barriers.of_buffer[warp / 4 * kMostBuffers + i].init(1); }
      fence_barrier_init();
    }
    sync_warpgroup(warp);
  }

  /// Begins to load what the epilogue reads of the tile for which store() is called next, with the same arguments. If this is
  /// not called, store() does it.
  template <class Tile>
  CUTE_DEVICE static void begin(Params const& params, SharedStorage& storage, SourceBarriers& barriers, Tile const& tile,
                                int split, int thread, int warp, Slices& slices) {
    Called const functor(params.functor);
    Part const mine(params, storage, barriers, tile, split, thread, warp);
    if constexpr (Tile::kOwnMatrices) {
      if (mine.leads && slices.acquired != tile.batch) { tile.acquire_outputs(); }
      slices.acquired = tile.batch;
    }
    auto const row_of = [&](int i) { return cute::get<0>(mine.place(i * kCountN * kSlicesOfAtom)) + mine.row; };
    auto const column_of = [&](int i) { return cute::get<1>(mine.place(i)); };
    slices.beside.load(functor, mine.bounds, row_of, column_of, tile.batch, mine.lane);
    slices.begun = true;
    if (!loads_by_tma(params, functor)) { return; }
    if (mine.leads) { tma_store_wait<0>(); }  // the stores of the tile before have read the buffers
    mine.sync();                              // so have threads that stored slices themselves
    CUTE_UNROLL
    for (int i = 0; i < cute::min(kMostBuffers, kOfSplit); ++i) {
      if (i < mine.count) { load_slice(params, mine, tile, i, slices); }
    }
  }

  /// act(Int<0>{}), act(Int<1>{}), and so on. Not cute::for_each, of which the compiler makes a function if it becomes long:
  /// the accumulators would be in local memory, and wgmma writes its results to registers only.
  template <class Act, int... kSlice>
  CUTE_DEVICE static void each_slice(cute::int_sequence<kSlice...>, Act const& act) {
    (store_slice<(sizeof...(kSlice) > kMostTogether)>(cute::Int<kSlice>{}, act), ...);
  }
  /// kAlone: the compiler does not optimize across slices. Of many it takes minutes, and more memory than most machines have.
  template <bool kAlone, class Slice, class Act>
  CUTE_DEVICE static void store_slice(Slice slice, Act const& act) {
    act(slice);
    if constexpr (kAlone) { asm volatile("" ::: "memory"); }
  }
  static constexpr int kMostTogether = 8;

  /// Stores this CTA's slices of an output tile; with split-K, `split` says which these are. `thread`: index within the
  /// TiledMMA; `warp`: among all warps that store, for the buffers and the named barrier.
  /// TMA stores slices that are inside D; slices of a group's tile that end beyond the group are stored by the threads.
  template <class TensorRC, class Tile>
  CUTE_DEVICE static void store(Params const& params, SharedStorage& storage, SourceBarriers& barriers,
                                TensorRC const& tCrC,  // ((2,2,MMA_N/8),MMA_M,MMA_N)
                                Tile const& tile, int split, int thread, int warp, Slices& slices) {
    Called const functor(params.functor);
    if (!slices.begun) { begin(params, storage, barriers, tile, split, thread, warp, slices); }
    slices.begun = false;
    Part const mine(params, storage, barriers, tile, split, thread, warp);
    // Most calls have code of their own, so that they need not fetch the instructions that only other calls execute.
    if (!loads_by_tma(params, functor) && !functor.reads_source() && tile.outputs(params).tma_end == INT_MAX) {
      store_slices<true>(params, mine, tCrC, tile, split, functor, slices);
    } else {
      store_slices<false>(params, mine, tCrC, tile, split, functor, slices);
    }
    functor.finish();
  }

  /// Call before the CTA exits: its shared memory must outlive the stores that read it.
  CUTE_DEVICE static void wait_for_stores() { tma_store_wait<0>(); }

 private:
  CUTE_DEVICE static int buffers_of([[maybe_unused]] Params const& params) {
    if constexpr (Config::kTileNAtLaunch) {
      return params.buffers;
    } else {
      return kBuffers;
    }
  }

  CUTE_DEVICE static void sync_warpgroup(int warp) {
    asm volatile("bar.sync %0, 128;" ::"r"(kNamedBarrier + warp / 4) : "memory");
  }

  /// The part of a tile that one warpgroup has, for one of its threads.
  struct Part {
    int warp, lane;
    int thread;  // in its warpgroup
    int row;     // the first row of a slice that the thread's warp has
    bool leads;  // the thread that calls TMA
    int first_m, first_n, first_slice;
    SliceCoord bounds;  // rows and columns from there on are not stored
    int count;          // of buffers
    unsigned char* buffers;
    Barrier* barriers;

    template <class Tile>
    CUTE_DEVICE Part(Params const& params, SharedStorage& storage, SourceBarriers& source, Tile const& tile, int split,
                     int thread, int warp)
        : warp(warp),
          lane(thread % 32),
          thread(thread % 128),
          row(thread % 128 / 32 * Slice::kWarpRows),
          leads(thread % 128 == 0),
          first_slice(kSlices > kOfSplit ? split * kOfSplit : 0),
          bounds{tile.end_m(params.m), tile.end_n(params.n)},
          count(buffers_of(params)),
          buffers(storage.d - (count - kBuffers) * Config::kEpilogueBytes + warp / 4 * count * kSliceBytes),
          barriers(source.of_buffer + warp / 4 * kMostBuffers) {
      auto const [in_warpgroup, warpgroup_m, warpgroup_n, _k] = typename TiledMma::ThrLayoutVMNK{}.get_flat_coord(thread);
      first_m = tile.first_m(Config::kTileM) + warpgroup_m * kMmaM;
      int const tile_n = launched_tile_n<Config>(params), begin_n = tile.first_n(tile_n);
      first_n = begin_n + warpgroup_n * kMmaN;
      if constexpr (Config::kTileNAtLaunch) { bounds.n = min(bounds.n, begin_n + tile_n); }
    }

    CUTE_DEVICE void sync() const { sync_warpgroup(warp); }

    /// use: the number of slices before. The buffer of a slice, and the parity of the phase of its barrier for this slice.
    CUTE_DEVICE int buffer(unsigned use) const { return int(use & unsigned(count - 1)); }
    CUTE_DEVICE uint32_t parity(unsigned use) const { return use >> (count - 1) & 1; }

    /// Waits until a buffer's last store has read it.
    CUTE_DEVICE void wait_for_buffer() const {
      if (count == 1) {
        tma_store_wait<0>();
      } else {
        tma_store_wait<1>();
      }
    }

    /// The first row and column of a slice; columns of the sums.
    CUTE_DEVICE cute::tuple<int, int> place(int slice) const {
      return {first_m + slice / kSlicesOfAtom / kCountN * kMmaM * kWarpgroupsM,
              first_n + slice / kSlicesOfAtom % kCountN * kMmaN * kWarpgroupsN + slice % kSlicesOfAtom * kSliceN};
    }
    CUTE_DEVICE bool contains(int m, int n) const { return m < bounds.m && n < bounds.n; }
  };

  /// kPlain: C is not read, TMA loads nothing for a slice, and it can address all of D.
  template <bool kPlain, class TensorRC, class Tile>
  CUTE_DEVICE static void store_slices(Params const& params, Part const& mine, TensorRC const& tCrC, Tile const& tile,
                                       int split, Called const& functor, Slices& slices) {
    using namespace cute;
    bool const tma_loads = !kPlain && loads_by_tma(params, functor);
    SliceCoord const of_d = {mine.bounds.m, mine.bounds.n / kPair};
    auto const& to = tile.outputs(params);
    int const lane = mine.lane;

    each_slice(make_int_sequence<kSlices>{}, [&](auto slice) {
      constexpr int kSlice = decltype(slice)::value;
      constexpr int kPart = kSlice % kSlicesOfAtom;
      constexpr int kN = kSlice / kSlicesOfAtom % kCountN;
      constexpr int kM = kSlice / kSlicesOfAtom / kCountN;
      if (kSlices > kOfSplit && kSlice / kOfSplit != split) { return; }
      if (tma_loads && kSlice % kOfSplit > 0 && kSlice % kOfSplit + mine.count - 1 < kOfSplit) {
        if (mine.leads) { tma_store_wait<0>(); }  // the store of the slice before has read its buffer
        mine.sync();
        load_slice(params, mine, tile, kSlice % kOfSplit + mine.count - 1, slices);
      }
      auto const [m, n] = mine.place(kSlice);
      if (skips<Tile>(params, mine, kSlice, m, n)) { return; }
      auto const lines = slices.beside.of_slice(kM, kSlice % (kCountN * kSlicesOfAtom), lane);
      unsigned const use = slices.stored++;
      unsigned char* const buffer = mine.buffers + mine.buffer(use) * kSliceBytes;

      Tensor sums = make_tensor(&tCrC(0, kM, kN) + kPart * (kSliceN / 2), Shape<Int<kSliceN / 2>>{});
      if (tma_loads) {
        mine.barriers[mine.buffer(use)].wait(mine.parity(use));
        stage<!kStagesMatrix>(sums, buffer, params, mine, functor, lines, m + mine.row, n, tile,
                              tma_loads_slice(params, mine, tile, m, n));
      } else {
        if (mine.leads) { mine.wait_for_buffer(); }
        mine.sync();  // threads that stored the slice themselves have read it too
        if (!kPlain && functor.reads_source()) {
          stage<true>(sums, buffer, params, mine, functor, lines, m + mine.row, n, tile, false);
        } else {
          stage<false>(sums, buffer, params, mine, functor, lines, m + mine.row, n, tile, false);
        }
      }
      lines.finish(functor, mine.bounds, {m + mine.row, n}, tile.batch, lane);
      fence_view_async_shared();
      mine.sync();
      int const column = n / kPair;  // of D
      if (!kPlain && (Config::kDRowMajor ? column + kSliceD : m + kRows) > to.tma_end) {
        Slice::store_lines(buffer, to.d + tile.batch_d() * to.batch_stride_d, to.ldd, of_d, {m, column}, mine.thread);
      } else if (!tma_moves<Tile>(of_d, m, column)) {
        store_end_of_group<Tile>(buffer, params, of_d, tile.batch_d(), {m, column}, mine);
      } else if (mine.leads) {
        each_box(buffer, m, [&](unsigned char* box, int box_m) {
          params.store(to, tile, box, box_m, column, launched_tile_n<Config>(params), params.n);
        });
      }
      if (mine.leads) { tma_store_commit(); }  // one group for each slice, an empty one if TMA did not store the slice
    });
  }

  /// act(buffer, m) for each box of the slice in a buffer that begins at row m.
  template <class Act>
  CUTE_DEVICE static void each_box(unsigned char* buffer, int m, Act const& act) {
    CUTE_UNROLL
    for (int i = 0; i < Slice::kBoxes; ++i) { act(buffer + i * Slice::kBoxBytes, m + i * Slice::kBoxRows); }
  }

  template <class Tile>
  static constexpr bool kOfGroup = Tile::kEndsInside;

  /// Is a slice left out? Slices outside a group are, and those beyond the columns of a tile that the launch computes. TMA
  /// clips those outside D; that they are not asked for here keeps the code of other slices free of divergent branches.
  template <class Tile>
  CUTE_DEVICE static bool skips(Params const& params, Part const& mine, int slice, int m, int n) {
    if constexpr (Config::kTileNAtLaunch) { return slice % kSlicesOfAtom * kSliceN >= params.tile_n; }
    return (Tile::kEndsInside || Tile::kOwnMatrices) && !mine.contains(m, n);
  }

  /// Tiles of groups may begin anywhere, and groups may share lines of a second matrix.
  static constexpr bool kStagesMatrix = Called::kStagesMatrix && !kOfGroup<typename Config::TileScheduler::Params::Coord>;

  using BesideSlice = Sm90BesideSlice<Called, kSliceN, kStagesMatrix>;

  /// The matrix that the tensor map for a second matrix addresses. A kernel writes that of a group; any matrix may stand here.
  static FurtherTensor matrix_for_map(FurtherTensor const& matrix, GemmArguments<Config> const&) { return matrix; }
  static FurtherTensor matrix_for_map(FurtherPointers const&, GemmArguments<Config> const& args) {
    return {args.d, args.ldd, 0};
  }

  CUTE_DEVICE static bool loads_by_tma(Params const& params, Called const& functor) {
    return params.tma_loads && (kStagesMatrix || functor.reads_source());
  }

  /// Loads slice i of those that this CTA stores to the next buffer, which no store reads any more. If the threads will load
  /// the slice, the barrier completes at once, so that each slice is one phase of its buffer's barrier.
  template <class Tile>
  CUTE_DEVICE static void load_slice(Params const& params, Part const& mine, Tile const& tile, int i, Slices& slices) {
    auto const place = mine.place(mine.first_slice + i);
    int const m = cute::get<0>(place), n = cute::get<1>(place);
    if (skips<Tile>(params, mine, mine.first_slice + i, m, n)) { return; }
    int const buffer = mine.buffer(slices.loaded++);
    if (!mine.leads) { return; }
    if (tma_loads_slice(params, mine, tile, m, n)) {
      mine.barriers[buffer].arrive_and_expect(kSliceBytes);
      each_box(mine.buffers + buffer * kSliceBytes, m, [&](unsigned char* box, int box_m) {
        tma_load(&tile.outputs(params).map_source, box, mine.barriers[buffer], Config::kDRowMajor ? n : box_m,
                 Config::kDRowMajor ? box_m : n, tile.batch_d(), CacheHint::kEvictFirst);
      });
    } else {
      mine.barriers[buffer].arrive();
    }
  }

  /// Does TMA load this slice of C, given that it loads some? If groups have separate matrices, TMA may be unable to address
  /// the C of some groups.
  template <class Tile>
  CUTE_DEVICE static bool tma_loads_slice(Params const& params, Part const& mine, Tile const& tile, int m, int n) {
    if constexpr (Tile::kOwnMatrices) { return tile.outputs(params).tma_loads; }
    return tma_moves<Tile>(mine.bounds, m, n);
  }

  /// Does TMA load and store a slice? Not a slice that ends beyond the tile's group. If groups follow each other along the
  /// contiguous mode of D, neither a slice that does not begin at a multiple of 16 bytes.
  template <class Tile>
  CUTE_DEVICE static bool tma_moves(SliceCoord const& bounds, int m, int n) {
    if constexpr (kOfGroup<Tile>) {
      constexpr bool kEndsAlong = Tile::kAlongN == Config::kDRowMajor;
      constexpr int kVector = 16 / int(sizeof(ElementD));
      bool const whole = Tile::kAlongN ? n + kSliceD <= bounds.n : m + kRows <= bounds.m;
      return whole && (!kEndsAlong || (Tile::kAlongN ? n : m) % kVector == 0);
    }
    return true;
  }

  /// Stores a slice of a group that TMA does not: its lines are whole vectors unless the group ends in them.
  template <class Tile>
  CUTE_DEVICE static void store_end_of_group(unsigned char const* buffer, Params const& params, SliceCoord const& end,
                                             int batch, SliceCoord const& first, Part const& mine) {
    if constexpr (kOfGroup<Tile>) {
      ElementD* const d = params.d + batch * params.batch_stride_d;
      if constexpr (Tile::kAlongN == Config::kDRowMajor) {
        Slice::store_lines(buffer, d, params.ldd, end, first, mine.thread);
      } else {
        Slice::store_vectors(buffer, d, params.ldd, end, first, mine.row, mine.lane);
      }
    }
  }

  /// Writes a warp's rows of a slice, which begin at row m, from registers to a buffer. A thread's accumulators: rows t/4 and
  /// t/4 + 8, columns 2 * (t % 4) and the next, in every group of 8 columns. staged: C lies in the buffer.
  template <bool kReadsSource, class TensorR, class Tile>
  CUTE_DEVICE static void stage(TensorR const& sums, unsigned char* buffer, Params const& params, Part const& mine,
                                Called const& functor, typename BesideTile::OfSlice const& lines, int m, int n,
                                Tile const& tile, bool staged) {
    int const lane = mine.lane;
    alignas(16) ElementD source[kSliceN / 2] = {};
    if constexpr (kReadsSource && kPair == 1) {
      if (staged) {
        Slice::get(source, buffer, mine.row, lane);
      } else {  // issue all loads before the first use
        auto const& from = tile.outputs(params);
        ElementD const* const c = from.c + tile.batch_d() * from.batch_stride_c;
        CUTE_UNROLL
        for (int i = 0; i < kSliceN / 2; ++i) {
          int const row = m + lane / 4 + i / 2 % 2 * 8;
          int const column = n + i / 4 * 8 + lane % 4 * 2 + i % 2;
          if (mine.contains(row, column)) {
            source[i] = c[Config::kDRowMajor ? row * from.ldc + column : row + column * from.ldc];
          }
        }
      }
    }
    BesideSlice beside{lines};
    beside.load(functor, mine.bounds, {m, n}, tile.batch, lane, staged);
    if constexpr (kStagesMatrix) {
      if (staged) {
        Slice::get(source, buffer, mine.row, lane);
        CUTE_UNROLL
        for (int i = 0; i < kSliceN / 2; ++i) { functor.put(beside.elements[i], source[i]); }
      }
    }
    if (Called::kObserves && !beside.whole) {  // code of its own, which asks for each element whether it lies inside
      put<kReadsSource>(sums, source, buffer, functor, beside, mine.row, lane);
    } else {
      put<kReadsSource>(sums, source, buffer, functor, beside.as_whole(), mine.row, lane);
    }
  }

  /// Elements of D from registers to a buffer.
  template <bool kReadsSource, class TensorR, class Beside>
  CUTE_DEVICE static void put(TensorR const& sums, ElementD const (&source)[kSliceN / 2], unsigned char* buffer,
                              Called const& functor, Beside const& beside, int row, int lane) {
    if constexpr (kPair == 2) {
      put_pairs(sums, buffer, functor, beside, row, lane);
    } else {
      if constexpr (kMayKeepIntegers<Functor> && !kReadsSource) {
        if (functor.keeps_integers()) {
          put_saturated(sums, buffer, row, lane);
          return;
        }
      }
      CUTE_UNROLL
      for (int first = 0; first < kSliceN / 2; first += 4 * Slice::kGroups) {
        alignas(16) ElementD out[4 * Slice::kGroups];
        CUTE_UNROLL
        for (int i = 0; i < 4 * Slice::kGroups; ++i) {
          int const at = first + i;
          out[i] = kReadsSource ? functor(sums(at), source[at], beside(at)) : functor(sums(at), beside(at));
        }
        Slice::put(out, buffer, row, first * 2, lane);
      }
    }
  }

  /// The same where elements of D are sums that are only saturated.
  template <class TensorR>
  CUTE_DEVICE static void put_saturated(TensorR const& sums, unsigned char* buffer, int row, int lane) {
    CUTE_UNROLL
    for (int first = 0; first < kSliceN / 2; first += 4) {
      ElementD out[4];
      CUTE_UNROLL
      for (int i = 0; i < 4; i += 2) { saturate_pair(out + i, sums(first + i), sums(first + i + 1)); }
      Slice::put(out, buffer, row, first * 2, lane);
    }
  }

  /// Each pair of neighbouring columns makes one element of D, stored individually: for stmatrix the lanes would first have to
  /// exchange halves of their registers, which costs as much as these stores.
  template <class TensorR, class Beside>
  CUTE_DEVICE static void put_pairs(TensorR const& sums, unsigned char* buffer, Called const& functor, Beside const& beside,
                                    int row, int lane) {
    CUTE_UNROLL
    for (int i = 0; i < kSliceN / 2; i += 2) {
      ElementD const element = functor(sums(i), sums(i + 1), beside(i), beside(i + 1));
      *reinterpret_cast<ElementD*>(buffer + Slice::offset(row + lane / 4 + i / 2 % 2 * 8, i / 4 * 4 + lane % 4)) = element;
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
