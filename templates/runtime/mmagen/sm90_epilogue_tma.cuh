// Epilogue of the sm_90 kernels: accumulators -> functor -> shared memory -> TMA -> D.
//
// Warps are independent. The 16 rows of a wgmma that a warp holds are stored in slices of kSliceN columns, through buffers
// that the warp alone writes and whose stores it alone waits for. The store of a slice overlaps the computation of the next
// one, and the last stores of a tile overlap the next tile's mainloop.
#pragma once

#include <climits>

#include <cute/tensor.hpp>

#include "epilogue_functor.cuh"
#include "gemm_arguments.cuh"
#include "sm90_tensor_map.cuh"
#include "sm90_tma.cuh"
#include "tile_raster.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Functor_: makes elements of D of accumulators and C, see linear_combination.cuh and epilogue_functor.cuh.
template <class Config, class Functor_>
struct Sm90EpilogueTma {
  using Functor = Functor_;
  using Called = EpilogueFunctor<Functor>;
  using ElementD = typename Config::ElementD;
  using TiledMma = typename Config::TiledMma;

  struct alignas(128) Params {
    CUtensorMap map_d;
    int m, n;
    ElementD const* c;
    int64_t ldc, batch_stride_c;
    ElementD* d;
    int64_t ldd, batch_stride_d;
    int tma_end;  // what ends behind this column (row) of D is stored element by element
    typename Functor::Params functor;
  };

  struct SharedStorage {
    alignas(1024) unsigned char d[Config::kEpilogueBytes];
  };

  static constexpr int kRows = 16;  // of D in a warp's accumulators: PTX ISA, "Register Fragments for wgmma"
  static constexpr int kPair = kSumsOfElement<Functor>;  // columns of sums for one of D
  static constexpr int kSliceN = Config::kSliceN;        // of sums
  static constexpr int kSliceD = kSliceN / kPair;        // of D
  static constexpr int kSliceBytes = kRows * kSliceD * int(sizeof(ElementD));
  static constexpr int kBuffers = Config::kEpilogueBuffers;
  static constexpr int kPitch = (Config::kDRowMajor ? kSliceD : kRows) * int(sizeof(ElementD));  // bytes of a staged line
  static constexpr int kMmaM = 64;
  static constexpr int kMmaN = decltype(cute::size<1>(typename TiledMma::AtomShape_MNK{}))::value;
  static constexpr int kWarpgroupsM = decltype(cute::size<1>(typename TiledMma::ThrLayoutVMNK{}))::value;
  static constexpr int kWarpgroupsN = decltype(cute::size<2>(typename TiledMma::ThrLayoutVMNK{}))::value;
  static constexpr int kCountM = Config::kTileM / (kMmaM * kWarpgroupsM);  // atoms of a warpgroup
  static constexpr int kCountN = Config::kTileN / (kMmaN * kWarpgroupsN);
  static constexpr int kSlicesOfAtom = kMmaN / kSliceN;
  static constexpr int kSlices = kCountM * kCountN * kSlicesOfAtom;  // of a warp
  static_assert(kMmaN % kSliceN == 0 && kSliceN % 8 == 0, "slices tile the atom");
  static_assert(kSlices % Config::TileScheduler::kSplitK == 0, "CTAs that share a tile store the same number of slices");
  static_assert(4 * Config::kConsumers * kBuffers * kSliceBytes == Config::kEpilogueBytes, "the plan and the kernel disagree");

  /// Where TMA cannot address D, all of it is stored element by element.
  static CUresult make_params(Params& params, GemmArguments<Config> const& args) {
    int64_t const columns = args.n / kPair;
    MatrixExtent const d = {Config::kDRowMajor ? columns : args.m, Config::kDRowMajor ? args.m : columns, args.batch, args.ldd,
                            args.batch_stride_d};
    constexpr int kAlong = Config::kDRowMajor ? kSliceD : kRows;
    constexpr int kAcross = Config::kDRowMajor ? kRows : kSliceD;
    params.m = int(args.m);
    params.n = int(args.n);
    params.c = args.c;
    params.ldc = args.ldc;
    params.batch_stride_c = args.batch_stride_c;
    params.d = args.d;
    params.ldd = args.ldd;
    params.batch_stride_d = args.batch_stride_d;
    params.functor = functor_params<Functor>(args);
    CUresult const result = encode_tensor_map<ElementD>(params.map_d, args.d, d, kAlong, kAcross, kPitch);
    bool const ragged = d.along * int64_t(sizeof(ElementD)) % 16 != 0;  // TMA stores multiples of 16 bytes
    params.tma_end = result == CUDA_ERROR_INVALID_VALUE ? 0 : ragged ? int(d.along) : INT_MAX;
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
  }

  CUTE_DEVICE static void prefetch_descriptors(Params const& params) {
    if (params.tma_end > 0) { tma_prefetch_descriptor(&params.map_d); }
  }

  /// Stores this CTA's slices of an output tile; with split-K, `split` says which these are. `thread`: index within the
  /// TiledMMA; `warp`: among all warps that store, for the buffers; `slices` counts the slices that this warp has stored.
  /// TMA stores what lies in D as a whole; of a tile of a group, slices that end behind the group are stored by the threads.
  template <class TensorRC, class Tile>
  CUTE_DEVICE static void store(Params const& params, SharedStorage& storage,
                                TensorRC const& tCrC,  // ((2,2,MMA_N/8),MMA_M,MMA_N)
                                Tile const& tile, int split, int thread, int warp, unsigned& slices) {
    constexpr int kSplitK = Config::TileScheduler::kSplitK;
    using namespace cute;
    int const lane = thread % 32;
    auto const [in_warpgroup, warpgroup_m, warpgroup_n, _k] = typename TiledMma::ThrLayoutVMNK{}.get_flat_coord(thread);
    int const first_m = tile.first_m(Config::kTileM) + warpgroup_m * kMmaM + in_warpgroup / 32 * kRows;
    int const first_n = tile.first_n(Config::kTileN) + warpgroup_n * kMmaN;
    unsigned char* const buffers = storage.d + warp * kBuffers * kSliceBytes;
    Called const functor(params.functor);
    ElementD const* const c = params.c + tile.batch_d() * params.batch_stride_c;
    Bounds const bounds = {tile.end_m(params.m), tile.end_n(params.n)};
    Bounds const of_d = {bounds.m, bounds.n / kPair};

    for_each(make_int_sequence<kSlices>{}, [&](auto slice) {
      constexpr int kSlice = decltype(slice)::value;
      constexpr int kPart = kSlice % kSlicesOfAtom;
      constexpr int kN = kSlice / kSlicesOfAtom % kCountN;
      constexpr int kM = kSlice / kSlicesOfAtom / kCountN;
      if (kSplitK > 1 && kSlice / (kSlices / kSplitK) != split) { return; }
      int const m = first_m + kM * kMmaM * kWarpgroupsM;
      int const n = first_n + kN * kMmaN * kWarpgroupsN + kPart * kSliceN;
      if (kOfGroup<Tile> && (m >= bounds.m || n >= bounds.n)) { return; }
      unsigned char* const buffer = buffers + slices++ % kBuffers * kSliceBytes;

      if (lane == 0) {
        tma_store_commit();              // one group for each slice, an empty one if TMA did not store the slice
        tma_store_wait<kBuffers - 1>();  // the store from this buffer has read it
      }
      __syncwarp();
      Tensor sums = make_tensor(&tCrC(0, kM, kN) + kPart * (kSliceN / 2), Shape<Int<kSliceN / 2>>{});
      if (functor.reads_source()) {
        stage<true>(sums, buffer, params, bounds, functor, c, m, n, tile.batch, lane);
      } else {
        stage<false>(sums, buffer, params, bounds, functor, c, m, n, tile.batch, lane);
      }
      fence_view_async_shared();
      __syncwarp();
      int const column = n / kPair;  // of D
      if ((Config::kDRowMajor ? column + kSliceD : m + kRows) > params.tma_end) {
        store_elements(buffer, params, of_d, tile.batch_d(), m, column, lane);
      } else if (!tma_stores<Tile>(of_d, m, column)) {
        store_end_of_group<Tile>(buffer, params, of_d, tile.batch_d(), m, column, lane);
      } else if (lane == 0) {
        tma_store(&params.map_d, buffer, Config::kDRowMajor ? column : m, Config::kDRowMajor ? m : column, tile.batch_d());
      }
    });
    tma_store_commit();
    functor.finish();
  }

  /// Call before the CTA exits: its shared memory must outlive the stores that read it.
  CUTE_DEVICE static void wait_for_stores() { tma_store_wait<0>(); }

 private:
  /// Rows and columns from there on are not stored.
  struct Bounds {
    int m, n;
  };

  template <class Tile>
  static constexpr bool kOfGroup = !cute::is_same_v<Tile, TileCoord>;

  /// Does TMA store a slice? Of a group's tile not one that ends behind the group, nor, where groups follow each other along
  /// the contiguous mode of D, one that does not begin at a multiple of 16 bytes.
  template <class Tile>
  CUTE_DEVICE static bool tma_stores(Bounds const& bounds, int m, int n) {
    if constexpr (kOfGroup<Tile>) {
      constexpr bool kEndsAlong = Tile::kAlongN == Config::kDRowMajor;
      constexpr int kVector = 16 / int(sizeof(ElementD));
      bool const whole = Tile::kAlongN ? n + kSliceD <= bounds.n : m + kRows <= bounds.m;
      return whole && (!kEndsAlong || (Tile::kAlongN ? n : m) % kVector == 0);
    }
    return true;
  }

  /// Stores a slice that TMA does not, of a D that TMA can address: its lines are whole vectors unless the group ends in them.
  template <class Tile>
  CUTE_DEVICE static void store_end_of_group(unsigned char const* buffer, Params const& params, Bounds const& bounds, int batch,
                                             int m, int n, int lane) {
    if constexpr (kOfGroup<Tile>) {
      if constexpr (Tile::kAlongN == Config::kDRowMajor || kPitch % 16 != 0) {
        store_elements(buffer, params, bounds, batch, m, n, lane);
      } else {
        store_vectors(buffer, params, bounds, batch, m, n, lane);
      }
    }
  }

  /// Byte offset of an element in a buffer, with TMA's swizzle.
  CUTE_DEVICE static int offset(int row, int column) {
    constexpr int kBits = kPitch == 128 ? 3 : kPitch == 64 ? 2 : kPitch == 32 ? 1 : 0;
    int const line = Config::kDRowMajor ? row : column;
    int const along = Config::kDRowMajor ? column : row;
    return cute::Swizzle<kBits, 4, 3>::apply(line * kPitch + along * int(sizeof(ElementD)));
  }

  /// What the functor reads for a thread's accumulators of a slice: two rows, and two columns in every group of 8.
  struct BesideSlice {
    typename Called::Row rows[2] = {};
    typename Called::Column columns[kSliceN / 4] = {};
    typename Called::Element elements[kSliceN / 2] = {};
    int rows_left, columns_left;  // from the thread's first ones

    CUTE_DEVICE void load(Called const& functor, Params const& params, int m, int n, int batch, int lane) {
      rows_left = params.m - (m + lane / 4);
      columns_left = params.n - (n + lane % 4 * 2);
      CUTE_UNROLL
      for (int i = 0; i < 2; ++i) {
        int const row = m + lane / 4 + i * 8;
        if (row < params.m) { rows[i] = functor.load_row(row, batch); }
      }
      CUTE_UNROLL
      for (int i = 0; i < kSliceN / 4; ++i) {
        int const column = n + i / 2 * 8 + lane % 4 * 2 + i % 2;
        if (column < params.n) { columns[i] = functor.load_column(column, batch); }
      }
      CUTE_UNROLL
      for (int i = 0; i < kSliceN / 2; ++i) {
        int const row = m + lane / 4 + i / 2 % 2 * 8;
        int const column = n + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < params.m && column < params.n) { elements[i] = functor.load_element(row, column, batch); }
      }
    }
    CUTE_DEVICE auto operator()(int i) const {
      bool const inside = i / 2 % 2 * 8 < rows_left && i / 4 * 8 + i % 2 < columns_left;
      return BesideOf<Called>{rows[i / 2 % 2], columns[i / 4 * 2 + i % 2], elements[i], inside};
    }
  };

  /// Writes one slice from registers to a buffer. A thread's accumulators: rows t/4 and t/4 + 8, columns 2 * (t % 4) and the
  /// next, in every group of 8 columns.
  template <bool kReadsSource, class TensorR>
  CUTE_DEVICE static void stage(TensorR const& sums, unsigned char* buffer, Params const& params, Bounds const& bounds,
                                Called const& functor, ElementD const* c, int m, int n, int batch, int lane) {
    ElementD source[kSliceN / 2] = {};
    if constexpr (kReadsSource) {  // issue all loads before the first use
      CUTE_UNROLL
      for (int i = 0; i < kSliceN / 2; ++i) {
        int const row = m + lane / 4 + i / 2 % 2 * 8;
        int const column = n + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < bounds.m && column < bounds.n) {
          source[i] = c[Config::kDRowMajor ? row * params.ldc + column : row + column * params.ldc];
        }
      }
    }
    BesideSlice beside;
    beside.load(functor, params, m, n, batch, lane);
    if constexpr (kPair == 2) {
      put_pairs(sums, buffer, functor, beside, lane);
    } else {
      CUTE_UNROLL
      for (int first = 0; first < kSliceN / 2; first += 4 * kGroups) {
        alignas(16) ElementD out[4 * kGroups];
        CUTE_UNROLL
        for (int i = 0; i < 4 * kGroups; ++i) {
          int const at = first + i;
          out[i] = kReadsSource ? functor(sums(at), source[at], beside(at)) : functor(sums(at), beside(at));
        }
        put(out, buffer, first * 2, lane);
      }
    }
  }

  /// Of each pair of neighbouring columns one element of D, stored by itself: stmatrix would need the lanes to exchange halves
  /// of their registers first, at the cost of these stores.
  template <class TensorR>
  CUTE_DEVICE static void put_pairs(TensorR const& sums, unsigned char* buffer, Called const& functor,
                                    BesideSlice const& beside, int lane) {
    CUTE_UNROLL
    for (int i = 0; i < kSliceN / 2; i += 2) {
      ElementD const element = functor(sums(i), sums(i + 1), beside(i), beside(i + 1));
      *reinterpret_cast<ElementD*>(buffer + offset(lane / 4 + i / 2 % 2 * 8, i / 4 * 4 + lane % 4)) = element;
    }
  }

  /// Stores a slice as far as it lies within the bounds, along the contiguous mode of D.
  CUTE_DEVICE static void store_elements(unsigned char const* buffer, Params const& params, Bounds const& bounds, int batch,
                                         int m, int n, int lane) {
    constexpr int kLength = Config::kDRowMajor ? kSliceD : kRows;  // of a line
    ElementD* const d = params.d + batch * params.batch_stride_d;
#pragma unroll 8
    for (int j = 0; j < kRows * kSliceD / 32; ++j) {
      int const i = lane + j * 32;
      int const row = Config::kDRowMajor ? i / kLength : i % kLength;
      int const column = Config::kDRowMajor ? i % kLength : i / kLength;
      if (m + row >= bounds.m || n + column >= bounds.n) { continue; }
      int64_t const at = Config::kDRowMajor ? (m + row) * params.ldd + n + column : m + row + (n + column) * params.ldd;
      d[at] = *reinterpret_cast<ElementD const*>(buffer + offset(row, column));
    }
  }

  /// The same in vectors of 16 bytes, for a D that TMA can address: its lines begin and end at multiples of 16 bytes.
  CUTE_DEVICE static void store_vectors(unsigned char const* buffer, Params const& params, Bounds const& bounds, int batch,
                                        int m, int n, int lane) {
    constexpr int kVector = 16 / int(sizeof(ElementD));
    constexpr int kOfLine = kPitch / 16;
    ElementD* const d = params.d + batch * params.batch_stride_d;
#pragma unroll 4
    for (int i = lane; i < kSliceBytes / 16; i += 32) {
      int const line = i / kOfLine;
      int const along = i % kOfLine * kVector;
      int const row = Config::kDRowMajor ? line : along;
      int const column = Config::kDRowMajor ? along : line;
      if (m + row >= bounds.m || n + column >= bounds.n) { continue; }
      int64_t const at = Config::kDRowMajor ? (m + row) * params.ldd + n + column : m + row + (n + column) * params.ldd;
      *reinterpret_cast<uint4*>(d + at) = *reinterpret_cast<uint4 const*>(buffer + offset(row, column));
    }
  }

  static constexpr bool kMatrices = sizeof(ElementD) == 2;                // stmatrix stores 8 x 8 matrices of 16 bits
  static constexpr int kGroups = kMatrices && kSliceN % 16 == 0 ? 2 : 1;  // of 8 columns at a time

  CUTE_DEVICE static void put(ElementD const (&out)[4 * kGroups], unsigned char* buffer, int column, int lane) {
    if constexpr (kMatrices) {
      // Lanes 8i to 8i+7 hold the addresses of the lines of matrix i: rows 0-7 and 8-15, then the next 8 columns.
      int const row = lane / 8 % 2 * 8 + (Config::kDRowMajor ? lane % 8 : 0);
      int const column_of_lane = column + lane / 16 % kGroups * 8 + (Config::kDRowMajor ? 0 : lane % 8);
      uint32_t const address = smem_address(buffer + offset(row, column_of_lane));
      auto const* const words = reinterpret_cast<uint32_t const*>(out);
      if constexpr (kGroups == 2 && Config::kDRowMajor) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
                     "r"(words[1]), "r"(words[2]), "r"(words[3])
                     : "memory");
      } else if constexpr (kGroups == 2) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
                     "r"(words[1]), "r"(words[2]), "r"(words[3])
                     : "memory");
      } else if constexpr (Config::kDRowMajor) {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(words[0]), "r"(words[1])
                     : "memory");
      } else {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(words[0]),
                     "r"(words[1])
                     : "memory");
      }
    } else {
      constexpr int kPair = Config::kDRowMajor ? 2 : 1;  // adjacent in shared memory
      CUTE_UNROLL
      for (int i = 0; i < 4; i += kPair) {
        int const at = offset(lane / 4 + i / 2 * 8, column + lane % 4 * 2 + i % 2);
        struct alignas(sizeof(ElementD) * kPair) Pair {
          ElementD element[kPair];
        } pair;
        for (int j = 0; j < kPair; ++j) { pair.element[j] = out[i + j]; }
        *reinterpret_cast<Pair*>(buffer + at) = pair;
      }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
