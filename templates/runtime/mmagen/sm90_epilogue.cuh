// Epilogue of the sm_90 kernels: accumulators -> D = alpha * acc + beta * C -> shared memory -> TMA.
//
// Every warp is on its own: the 16 rows of a wgmma that it holds leave in slices of kSliceN columns, through buffers
// that it alone writes and whose stores it alone waits for. A slice is still on its way while the next one is made,
// and the last ones while the next tile is multiplied.
#pragma once

#include <cute/tensor.hpp>

#include "convert.cuh"
#include "sm90_params.cuh"

namespace mmagen {
inline namespace v0_1 {

/// alpha * acc + beta * C, rounded once. Without kReadsC, `source` means nothing.
template <bool kReadsC, class Element, class Accumulator, class Scalar>
CUTE_DEVICE Element combine(Accumulator accumulator, Scalar alpha, Scalar beta, Element source) {
  Scalar result = alpha * static_cast<Scalar>(accumulator);
  if constexpr (kReadsC) { result = result + beta * static_cast<Scalar>(source); }
  return convert<Element>(result);
}

template <class Config>
struct Sm90Epilogue {
  using ElementD = typename Config::ElementD;
  using Scalar = typename Config::Scalar;
  using TiledMma = typename Config::TiledMma;

  static constexpr int kRows = 16;  // of D in a warp's accumulators: PTX ISA, "wgmma: register fragments of D"
  static constexpr int kSliceN = Config::kSliceN;
  static constexpr int kSliceBytes = kRows * kSliceN * int(sizeof(ElementD));
  static constexpr int kBuffers = Config::kEpilogueBuffers;
  static constexpr int kPitch = (Config::kDRowMajor ? kSliceN : kRows) * int(sizeof(ElementD));  // bytes of a staged line
  static constexpr int kMmaM = 64;
  static constexpr int kMmaN = decltype(cute::size<1>(typename TiledMma::AtomShape_MNK{}))::value;
  static constexpr int kWarpgroupsM = decltype(cute::size<1>(typename TiledMma::ThrLayoutVMNK{}))::value;
  static constexpr int kWarpgroupsN = decltype(cute::size<2>(typename TiledMma::ThrLayoutVMNK{}))::value;
  static constexpr int kCountM = Config::kTileM / (kMmaM * kWarpgroupsM);  // atoms of a warpgroup
  static constexpr int kCountN = Config::kTileN / (kMmaN * kWarpgroupsN);
  static constexpr int kSlicesOfAtom = kMmaN / kSliceN;
  static constexpr int kSlices = kCountM * kCountN * kSlicesOfAtom;  // of a warp
  static_assert(kMmaN % kSliceN == 0 && kSliceN % 8 == 0, "slices tile the atom");
  static_assert(kSlices % Config::kSplitK == 0, "CTAs that share a tile store the same number of slices");
  static_assert(4 * Config::kConsumers * kBuffers * kSliceBytes == Config::kEpilogueBytes, "the plan and the kernel disagree");

  /// Stores the slices of this CTA. `thread`: index within the TiledMMA; `warp`: of all warps that store, for the
  /// buffers; `turn` counts the slices that this warp has stored.
  template <class TensorRC>
  CUTE_DEVICE static void run(Sm90Params<Config> const& params, Sm90Storage<Config>& storage,
                              TensorRC const& tCrC,  // ((2,2,MMA_N/8),MMA_M,MMA_N)
                              TileCoord const& tile, int split, int thread, int warp, unsigned& turn) {
    using namespace cute;
    int const lane = thread % 32;
    int const warpgroup_m = thread / 128 % kWarpgroupsM;
    int const warpgroup_n = thread / 128 / kWarpgroupsM;
    int const first_m = tile.m * Config::kTileM + warpgroup_m * kMmaM + thread % 128 / 32 * kRows;
    int const first_n = tile.n * Config::kTileN + warpgroup_n * kMmaN;
    unsigned char* const buffers = storage.d + warp * kBuffers * kSliceBytes;
    bool const reads_c = params.beta != Scalar(0);  // else C's memory may hold anything, NaN among it
    ElementD const* const c = params.c + tile.batch * params.batch_stride_c;

    for_each(make_int_sequence<kSlices>{}, [&](auto slice) {
      constexpr int kSlice = decltype(slice)::value;
      constexpr int kPart = kSlice % kSlicesOfAtom;
      constexpr int kN = kSlice / kSlicesOfAtom % kCountN;
      constexpr int kM = kSlice / kSlicesOfAtom / kCountN;
      if (Config::kSplitK > 1 && kSlice / (kSlices / Config::kSplitK) != split) { return; }
      int const m = first_m + kM * kMmaM * kWarpgroupsM;
      int const n = first_n + kN * kMmaN * kWarpgroupsN + kPart * kSliceN;
      unsigned char* const buffer = buffers + turn++ % kBuffers * kSliceBytes;

      if (lane == 0) {
        tma_store_commit();              // a group for each slice, an empty one for a slice that TMA did not store
        tma_store_wait<kBuffers - 1>();  // the store that read this buffer has done so
      }
      __syncwarp();
      Tensor sums = make_tensor(&tCrC(0, kM, kN) + kPart * (kSliceN / 2), Shape<Int<kSliceN / 2>>{});
      if (reads_c) {
        stage<true>(sums, buffer, params, c, m, n, lane);
      } else {
        stage<false>(sums, buffer, params, c, m, n, lane);
      }
      fence_for_async_proxy();
      __syncwarp();
      bool const whole = Config::kDRowMajor ? n + kSliceN <= params.n : m + kRows <= params.m;
      if (params.ragged_d && !whole) {
        store_elements(buffer, params, tile.batch, m, n, lane);
      } else if (lane == 0) {
        tma_store(&params.map_d, buffer, Config::kDRowMajor ? n : m, Config::kDRowMajor ? m : n, tile.batch);
      }
    });
    tma_store_commit();
  }

  /// Shared memory must outlive the stores that read it.
  CUTE_DEVICE static void finish() { tma_store_wait<0>(); }

 private:
  /// Bytes from a buffer's begin to an element, with TMA's swizzle.
  CUTE_DEVICE static int offset(int row, int column) {
    constexpr int kBits = kPitch == 128 ? 3 : kPitch == 64 ? 2 : kPitch == 32 ? 1 : 0;
    int const line = Config::kDRowMajor ? row : column;
    int const along = Config::kDRowMajor ? column : row;
    return cute::Swizzle<kBits, 4, 3>::apply(line * kPitch + along * int(sizeof(ElementD)));
  }

  /// One slice from registers to a buffer. A thread's sums: rows t/4 and t/4 + 8, columns 2 * (t % 4) and the next, in
  /// every group of 8 columns.
  template <bool kReadsC, class TensorR>
  CUTE_DEVICE static void stage(TensorR const& sums, unsigned char* buffer, Sm90Params<Config> const& params, ElementD const* c,
                                int m, int n, int lane) {
    ElementD source[kSliceN / 2] = {};
    if constexpr (kReadsC) {  // all of them on their way before the first is used
      CUTE_UNROLL
      for (int i = 0; i < kSliceN / 2; ++i) {
        int const row = m + lane / 4 + i / 2 % 2 * 8;
        int const column = n + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < params.m && column < params.n) {
          source[i] = c[Config::kDRowMajor ? row * params.ldc + column : row + column * params.ldc];
        }
      }
    }
    CUTE_UNROLL
    for (int first = 0; first < kSliceN / 2; first += 4 * kGroups) {
      alignas(16) ElementD out[4 * kGroups];
      CUTE_UNROLL
      for (int i = 0; i < 4 * kGroups; ++i) {
        out[i] = combine<kReadsC>(sums(first + i), params.alpha, params.beta, source[first + i]);
      }
      put(out, buffer, first * 2, lane);
    }
  }

  /// A slice at the end of rows that are no whole number of 16 bytes: TMA would write such rows up to the next 16.
  CUTE_DEVICE static void store_elements(unsigned char const* buffer, Sm90Params<Config> const& params, int batch, int m, int n,
                                         int lane) {
    ElementD* const d = params.d + batch * params.batch_stride_d;
    CUTE_NO_UNROLL
    for (int i = lane; i < kRows * kSliceN; i += 32) {
      int const row = Config::kDRowMajor ? i / kSliceN : i % kRows;
      int const column = Config::kDRowMajor ? i % kSliceN : i / kRows;
      if (m + row >= params.m || n + column >= params.n) { continue; }
      int64_t const at = Config::kDRowMajor ? (m + row) * params.ldd + n + column : m + row + (n + column) * params.ldd;
      d[at] = *reinterpret_cast<ElementD const*>(buffer + offset(row, column));
    }
  }

  static constexpr bool kMatrices = sizeof(ElementD) == 2;                // stmatrix moves 8 x 8 of 16 bits
  static constexpr int kGroups = kMatrices && kSliceN % 16 == 0 ? 2 : 1;  // of 8 columns, at a time

  CUTE_DEVICE static void put(ElementD const (&out)[4 * kGroups], unsigned char* buffer, int column, int lane) {
    if constexpr (kMatrices) {
      // Lanes 8i to 8i+7 name the lines of matrix i: rows 0 to 7 and 8 to 15, then the next 8 columns.
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
      constexpr int kPair = Config::kDRowMajor ? 2 : 1;  // neighbours in shared memory
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
