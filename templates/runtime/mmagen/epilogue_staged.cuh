// Epilogue: accumulators -> shared memory -> D = alpha * acc + beta * C, in vectors along D's contiguous mode.
//
// The tile goes through shared memory in slices of one TiledMMA extent across D's contiguous mode. A fragment holds
// pairs; only a detour through shared memory makes them 16-byte rows.
#pragma once

#include <cute/tensor.hpp>

#include "convert.cuh"
#include "k_slices.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct EpilogueStaged {
  using ElementAccumulator = typename Config::ElementAccumulator;
  using ElementD = typename Config::ElementD;
  using Scalar = typename Config::Scalar;

  static constexpr int kLong = Config::kDRowMajor ? Config::kTileN : Config::kTileM;  // extent that is contiguous in D
  static constexpr int kAcross = Config::kDRowMajor ? Config::kTileM : Config::kTileN;
  static constexpr int kSlice = Config::kEpilogueSlice;  // rows (columns) of D staged at a time
  static constexpr int kStride = kLong + Config::kEpiloguePad;
  static constexpr int kVector = Config::kEpilogueVector;  // elements of D in a wide store
  static_assert(kAcross % kSlice == 0 && kLong % kVector == 0, "slices and vectors tile D");

  struct SharedStorage {
    alignas(128) cute::ArrayEngine<ElementAccumulator, kSlice * kStride> slice;
  };

  /// One vector of C or D as it travels: kVector elements in one access.
  struct alignas(sizeof(ElementD) * kVector) Vector {
    ElementD element[kVector];
  };

  /// Stores the CTA tile whose first element is (m_origin, n_origin) of a matrix of `extent_m` x `extent_n`.
  /// c, d: the batch's matrices; c is read only where beta is not zero. `wide`: c, d and their strides allow vectors.
  template <class TensorRC>
  CUTE_DEVICE static void run(TensorRC const& tCrC,  // (MMA,MMA_M,MMA_N)
                              ElementD const* c, int64_t ldc, ElementD* d, int64_t ldd, Scalar alpha, Scalar beta, int m_origin,
                              int n_origin, int extent_m, int extent_n, bool wide, SharedStorage& storage) {
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

    int const across_left = Config::kDRowMajor ? extent_m - m_origin : extent_n - n_origin;
    int const long_left = Config::kDRowMajor ? extent_n - n_origin : extent_m - m_origin;
    int64_t const across_origin = Config::kDRowMajor ? m_origin : n_origin;
    int64_t const long_origin = Config::kDRowMajor ? n_origin : m_origin;
    constexpr int kMode = Config::kDRowMajor ? 1 : 2;
    constexpr int kPerSlice = decltype(size<kMode>(tCsC))::value;  // MMA_M (MMA_N) of one slice

    for_each(make_int_sequence<kAcross / kSlice>{}, [&](auto slice) {
      __syncthreads();  // the main loop, or the slice before, has done with this memory
      if constexpr (Config::kDRowMajor) {
        auto const slices = logical_divide(tCrC, make_tile(_, Int<kPerSlice>{}, _));
        stage_accumulators<Config::kAtomsK>(slices(_, make_coord(_, slice), _), tCsC, k_slice);
      } else {
        auto const slices = logical_divide(tCrC, make_tile(_, _, Int<kPerSlice>{}));
        stage_accumulators<Config::kAtomsK>(slices(_, _, make_coord(_, slice)), tCsC, k_slice);
      }
      int const first = slice * kSlice;
      if (wide) {
        store_slice<kVector>(storage, c, ldc, d, ldd, alpha, beta, across_origin + first, long_origin, across_left - first,
                             long_left);
      } else {
        store_slice<1>(storage, c, ldc, d, ldd, alpha, beta, across_origin + first, long_origin, across_left - first,
                       long_left);
      }
    });
  }

 private:
  /// Shared memory -> D for one slice, kWidth elements at a time; a vector that crosses D's edge goes element by element.
  template <int kWidth>
  CUTE_DEVICE static void store_slice(SharedStorage& storage, ElementD const* c, int64_t ldc, ElementD* d, int64_t ldd,
                                      Scalar alpha, Scalar beta, int64_t across_origin, int64_t long_origin, int across_left,
                                      int long_left) {
    constexpr int kPerLine = kLong / kWidth;
    for (int i = threadIdx.x; i < kSlice * kPerLine; i += Config::kThreads) {
      int const across = i / kPerLine;
      int const along = i % kPerLine * kWidth;
      if (across >= across_left || along >= long_left) { continue; }
      // Accumulators leave shared memory 16 bytes at a time: one by one, lanes a vector apart would share a bank.
      constexpr int kBits = cute::min(128, kWidth * cute::sizeof_bits_v<ElementAccumulator>);
      auto const shape = cute::Shape<cute::Int<kWidth>>{};
      cute::Tensor sums = cute::make_tensor<ElementAccumulator>(shape);  // (WIDTH)
      cute::copy(cute::AutoVectorizingCopyWithAssumedAlignment<kBits>{},
                 cute::make_tensor(cute::make_smem_ptr(storage.slice.begin() + across * kStride + along), shape), sums);
      ElementD const* c_row = c + (across_origin + across) * ldc + long_origin + along;
      ElementD* d_row = d + (across_origin + across) * ldd + long_origin + along;
      if (kWidth == kVector && along + kWidth <= long_left) {
        Vector source{};
        if (beta != Scalar(0)) { source = *reinterpret_cast<Vector const*>(c_row); }
        Vector result;
        CUTE_UNROLL
        for (int v = 0; v < kWidth; ++v) { result.element[v] = combine(sums(v), source.element[v], alpha, beta); }
        *reinterpret_cast<Vector*>(d_row) = result;
      } else {
        CUTE_UNROLL
        for (int v = 0; v < kWidth; ++v) {
          if (along + v < long_left) {
            ElementD const source = beta != Scalar(0) ? c_row[v] : static_cast<ElementD>(0);
            d_row[v] = combine(sums(v), source, alpha, beta);
          }
        }
      }
    }
  }

  /// With beta == 0, C is not read: its memory may hold anything, NaN among it.
  CUTE_DEVICE static ElementD combine(ElementAccumulator accumulator, ElementD source, Scalar alpha, Scalar beta) {
    Scalar result = alpha * static_cast<Scalar>(accumulator);
    if (beta != Scalar(0)) { result = result + beta * static_cast<Scalar>(source); }
    return convert<ElementD>(result);
  }
};

}  // namespace v0_1
}  // namespace mmagen
