// SPDX-License-Identifier: MIT-0
// Epilogue: accumulators -> shared memory -> functor -> D, in vectors along D's contiguous mode.
//
// The tile is staged in shared memory in slices; a slice is what the TiledMMA covers across D's contiguous mode. A thread's
// fragment holds pairs of elements, so the threads exchange elements through shared memory to store 16 bytes at a time.
#pragma once

#include <cute/tensor.hpp>

#include "epilogue_functor.cuh"
#include "gemm_arguments.cuh"
#include "stage_accumulators.cuh"
#include "tile_raster.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Functor_: computes elements of D from accumulators and C, see linear_combination.cuh and epilogue_functor.cuh.
template <class Config, class Functor_>
struct EpilogueStaged {
  using Functor = Functor_;
  using Called = EpilogueFunctor<Functor>;
  using ElementAccumulator = typename Config::ElementAccumulator;
  using ElementD = typename Config::ElementD;

  struct Params {
    int m, n;
    ElementD const* c;
    int64_t ldc, batch_stride_c;
    ElementD* d;
    int64_t ldd, batch_stride_d;
    typename Functor::Params functor;
    bool wide;  // rows of C and D begin at 16-byte boundaries
  };

  static constexpr int kLong = Config::kDRowMajor ? Config::kTileN : Config::kTileM;  // of the tile along D's contiguous mode
  static constexpr int kAcross = Config::kDRowMajor ? Config::kTileM : Config::kTileN;
  static constexpr int kSlice = Config::kEpilogueSlice;  // rows (columns) of D staged at a time
  static constexpr int kStride = kLong + Config::kEpiloguePad;
  static constexpr int kVector = Config::kEpilogueVector;  // elements of D in a wide store
  static constexpr int kPair = kSumsOfElement<Functor>;    // along a line
  static_assert(kAcross % kSlice == 0 && kLong % (kPair * kVector) == 0, "slices and vectors tile D");
  static_assert(kPair == 1 || Config::kDRowMajor, "the sums of an element are neighbours of a row");

  struct SharedStorage {
    alignas(128) cute::ArrayEngine<ElementAccumulator, kSlice * kStride> slice;
  };

  /// kVector elements of C or D, loaded or stored in one access.
  struct alignas(sizeof(ElementD) * kVector) Vector {
    ElementD element[kVector];
  };

  static Params make_params(GemmArguments<Config> const& args) {
    constexpr int kBytes = sizeof(ElementD);
    bool const wide = detail::rows_are_aligned(args.d, args.ldd, args.batch_stride_d, args.batch, kBytes) &&
                      detail::rows_are_aligned(args.c, args.ldc, args.batch_stride_c, args.batch, kBytes);
    return {int(args.m), int(args.n),         args.c,
            args.ldc,    args.batch_stride_c, args.d,
            args.ldd,    args.batch_stride_d, functor_params<Functor>(args),
            wide};
  }

  /// Stores one output tile.
  template <class TensorRC>
  CUTE_DEVICE static void run(Params const& params, TileCoord const& tile,
                              TensorRC const& tCrC,  // (MMA,MMA_M,MMA_N)
                              SharedStorage& storage) {
    using namespace cute;
    typename Config::TiledMma mma;
    auto const slice_layout = [] {
      if constexpr (Config::kDRowMajor) {
        return Layout<Shape<Int<kSlice>, Int<kLong>>, Stride<Int<kStride>, _1>>{};
      } else {
        return Layout<Shape<Int<kLong>, Int<kSlice>>, Stride<_1, Int<kStride>>>{};
      }
    }();
    Tensor sC = make_tensor(make_smem_ptr(storage.slice.begin()), slice_layout);  // (SLICE,BLK_N) or (BLK_M,SLICE)
    Tensor tCsC = mma.get_slice(threadIdx.x).partition_C(sC);                     // (MMA,MMA_M,MMA_N)
    int const k_slice = get<3>(mma.get_thr_layout_vmnk().get_flat_coord(int(threadIdx.x)));

    int const m_origin = tile.m * Config::kTileM;
    int const n_origin = tile.n * Config::kTileN;
    Lines lines;
    lines.across_left = Config::kDRowMajor ? params.m - m_origin : params.n - n_origin;
    lines.long_left = Config::kDRowMajor ? params.n - n_origin : params.m - m_origin;
    lines.across_origin = Config::kDRowMajor ? m_origin : n_origin;
    lines.long_origin = Config::kDRowMajor ? n_origin : m_origin;
    lines.c = params.c + tile.batch * params.batch_stride_c;
    lines.ldc = params.ldc;
    lines.d = params.d + tile.batch * params.batch_stride_d;
    lines.ldd = params.ldd;
    Called const functor(params.functor);
    lines.batch = tile.batch;
    constexpr int kMode = Config::kDRowMajor ? 1 : 2;
    constexpr int kPerSlice = decltype(size<kMode>(tCsC))::value;  // MMA_M (MMA_N) of one slice

    for_each(make_int_sequence<kAcross / kSlice>{}, [&](auto slice) {
      __syncthreads();  // the mainloop, or the preceding slice, no longer uses this memory
      if constexpr (Config::kDRowMajor) {
        auto const slices = logical_divide(tCrC, make_tile(_, Int<kPerSlice>{}, _));
        stage_accumulators<Config::kAtomsK>(slices(_, make_coord(_, slice), _), tCsC, k_slice);
      } else {
        auto const slices = logical_divide(tCrC, make_tile(_, _, Int<kPerSlice>{}));
        stage_accumulators<Config::kAtomsK>(slices(_, _, make_coord(_, slice)), tCsC, k_slice);
      }
      Lines of_slice = lines;
      of_slice.across_origin += slice * kSlice;
      of_slice.across_left -= slice * kSlice;
      if (params.wide) {
        store_slice<kVector>(storage, of_slice, functor);
      } else {
        store_slice<1>(storage, of_slice, functor);
      }
    });
    functor.finish();
  }

 private:
  /// Part of C and D: lines are contiguous, `across` counts them, `long` counts elements within them. `left`: to the end.
  struct Lines {
    int64_t across_origin, long_origin;
    int across_left, long_left, batch;
    ElementD const* c;
    int64_t ldc;
    ElementD* d;
    int64_t ldd;
  };

  /// What the functor reads for kWidth neighbours of a line: one row (column) of D, and as many columns (rows).
  template <int kWidth>
  struct BesideLine {
    static constexpr int kRows = Config::kDRowMajor ? 1 : kWidth;
    static constexpr int kColumns = Config::kDRowMajor ? kWidth : 1;
    typename Called::Row rows[kRows] = {};
    typename Called::Column columns[kColumns] = {};
    typename Called::Element elements[kWidth] = {};
    int left;

    CUTE_DEVICE void load(Called const& functor, Lines const& lines, int across, int along) {
      left = lines.long_left - along;
      CUTE_UNROLL
      for (int v = 0; v < kWidth; ++v) {
        if (along + v >= lines.long_left) { continue; }
        int const of_line = int(lines.across_origin) + across;
        int const in_line = int(lines.long_origin) + along + v;
        int const m = Config::kDRowMajor ? of_line : in_line;
        int const n = Config::kDRowMajor ? in_line : of_line;
        if (v < kRows) { rows[v] = functor.load_row(m, lines.batch); }
        if (v < kColumns) { columns[v] = functor.load_column(n, lines.batch); }
        elements[v] = functor.load_element(m, n, lines.batch);
      }
    }
    /// kSharingLine: the bits of a lane's index in which lanes of the same line differ; kSharingPlace: those in which lanes at
    /// the same place of other lines do.
    template <unsigned kSharingLine, unsigned kSharingPlace>
    CUTE_DEVICE void finish(Called const& functor, Lines const& lines, int across, int along) const {
      int const across_end = int(lines.across_origin) + lines.across_left;
      int const long_end = int(lines.long_origin) + lines.long_left;
      auto const row = [&](int v) -> typename Called::Row const& { return rows[v]; };
      auto const column = [&](int v) -> typename Called::Column const& { return columns[v]; };
      auto const line = [&](int) { return int(lines.across_origin) + across; };
      auto const place = [&](int v) { return int(lines.long_origin) + along + v; };
      if constexpr (Config::kDRowMajor) {
        functor.template finish_rows<kSharingLine, kRows>(row, line, across_end, lines.batch);
        functor.template finish_columns<kSharingPlace, kColumns>(column, place, long_end, lines.batch);
      } else {
        functor.template finish_rows<kSharingPlace, kRows>(row, place, long_end, lines.batch);
        functor.template finish_columns<kSharingLine, kColumns>(column, line, across_end, lines.batch);
      }
    }
    CUTE_DEVICE auto operator()(int v) const {
      return BesideOf<Called>{rows[kRows == 1 ? 0 : v], columns[kColumns == 1 ? 0 : v], elements[v], v < left};
    }
  };

  /// Neighbouring sums -> kWidth elements of D, of which `left` lie inside.
  template <int kWidth, class Sums>
  CUTE_DEVICE static void store_pairs(Sums const& sums, BesideLine<2 * kWidth> const& beside, Called const& functor,
                                      ElementD* d, int left) {
    Vector result;
    CUTE_UNROLL
    for (int v = 0; v < kWidth; ++v) {
      result.element[v] = functor(sums(2 * v), sums(2 * v + 1), beside(2 * v), beside(2 * v + 1));
    }
    if (kWidth == kVector && kWidth <= left) {
      *reinterpret_cast<Vector*>(d) = result;
    } else {
      CUTE_UNROLL
      for (int v = 0; v < kWidth; ++v) {
        if (v < left) { d[v] = result.element[v]; }
      }
    }
  }

  /// Shared memory -> D for one slice, kWidth elements at a time.
  template <int kWidth>
  CUTE_DEVICE static void store_slice(SharedStorage& storage, Lines const& lines, Called const& functor) {
    constexpr int kPerLine = kLong / (kPair * kWidth);
    constexpr int kSums = kPair * kWidth;
    // Which lanes have the same line, or the same place in their lines, where whole warps take part.
    constexpr bool kWholeWarps = kSlice * kPerLine % 32 == 0 && (kPerLine & (kPerLine - 1)) == 0;
    constexpr unsigned kSharingLine = kWholeWarps ? cute::min(kPerLine, 32) - 1 : 0;
    constexpr unsigned kSharingPlace = kWholeWarps ? 31 - kSharingLine : 0;
    for (int i = threadIdx.x; i < kSlice * kPerLine; i += Config::kThreads) {
      int const across = i / kPerLine;
      int const along = i % kPerLine * kSums;
      bool const inside = across < lines.across_left && along < lines.long_left;
      if (!Called::kObserves && !inside) { continue; }
      BesideLine<kSums> beside;
      if (inside) { store_vector<kWidth>(storage, lines, functor, across, along, beside); }
      if constexpr (Called::kObserves) { beside.template finish<kSharingLine, kSharingPlace>(functor, lines, across, along); }
    }
  }

  /// kWidth neighbours of a line; a vector that crosses D's edge is stored element by element.
  template <int kWidth>
  CUTE_DEVICE static void store_vector(SharedStorage& storage, Lines const& lines, Called const& functor, int across, int along,
                                       BesideLine<kPair * kWidth>& beside) {
    constexpr int kSums = kPair * kWidth;
    // Read from shared memory in 16-byte vectors: element by element, lanes that are a vector apart would share a bank.
    constexpr int kBits = cute::min(128, kSums * cute::sizeof_bits_v<ElementAccumulator>);
    auto const shape = cute::Shape<cute::Int<kSums>>{};
    cute::Tensor sums = cute::make_tensor<ElementAccumulator>(shape);  // (PAIR * WIDTH)
    cute::copy(cute::AutoVectorizingCopyWithAssumedAlignment<kBits>{},
               cute::make_tensor(cute::make_smem_ptr(storage.slice.begin() + across * kStride + along), shape), sums);
    ElementD const* c_row = lines.c + (lines.across_origin + across) * lines.ldc + lines.long_origin + along;
    ElementD* d_row = lines.d + (lines.across_origin + across) * lines.ldd + (lines.long_origin + along) / kPair;
    bool const reads_c = functor.reads_source();
    beside.load(functor, lines, across, along);
    if constexpr (kPair == 2) {
      store_pairs<kWidth>(sums, beside, functor, d_row, (lines.long_left - along) / 2);
    } else if (kWidth == kVector && along + kWidth <= lines.long_left) {
      Vector source{};
      if (reads_c) { source = *reinterpret_cast<Vector const*>(c_row); }
      Vector result;
      CUTE_UNROLL
      for (int v = 0; v < kWidth; ++v) {
        result.element[v] = reads_c ? functor(sums(v), source.element[v], beside(v)) : functor(sums(v), beside(v));
      }
      *reinterpret_cast<Vector*>(d_row) = result;
    } else {
      CUTE_UNROLL
      for (int v = 0; v < kWidth; ++v) {
        if (along + v < lines.long_left) {
          d_row[v] = reads_c ? functor(sums(v), c_row[v], beside(v)) : functor(sums(v), beside(v));
        }
      }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
