// The peak loop of wgmma: B, and A where it does not come from registers, in shared memory, which is written once.
#pragma once

#include <utility>

#include "loop.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace peak {

inline constexpr int kSliceBytes = 32;  // what one dense instruction takes of a row

/// Rows of 128 bytes, K along the row, swizzled.
__device__ __forceinline__ uint64_t descriptor(void const* tile) {
  uint64_t const address = __cvta_generic_to_shared(tile);
  constexpr uint64_t kSwizzle128 = uint64_t(1) << 62, kNext8Rows = uint64_t(8 * kTileRowBytes / 16) << 32;
  return kSwizzle128 | kNext8Rows | uint64_t(1) << 16 | address >> 4;
}

template <class Op, class = void>
struct Sparse : std::false_type {};
template <class Op>
struct Sparse<Op, std::void_t<typename Op::ERegisters>> : std::true_type {};

template <class Op>
inline constexpr bool kFromRegisters = std::is_same_v<typename RegistersOf<Op>::A, uint32_t>;

template <class Op, std::size_t... kA, std::size_t... kC>
__device__ __forceinline__ void multiply_async(typename RegistersOf<Op>::C* c, typename RegistersOf<Op>::A const* a, uint64_t b,
                                               uint32_t e, std::index_sequence<kA...>, std::index_sequence<kC...>) {
  if constexpr (Sparse<Op>::value) {
    Op::fma(a[kA]..., b, c[kC]..., e);
  } else {
    Op::fma(a[kA]..., b, c[kC]...);
  }
}

__device__ __forceinline__ void keep(uint32_t& c) { asm volatile("" : "+r"(c)::"memory"); }
__device__ __forceinline__ void keep(float& c) { asm volatile("" : "+f"(c)::"memory"); }

/// Every warpgroup keeps `kAccumulators` accumulators; all of them read the same tiles. Grid: any. Dynamic shared memory:
/// two tiles of A and two of B, the second of each with what slices 2 and 3 take.
template <class Op, int kN, int kAccumulators, int kSteps, int kMostThreads>
__global__ void __launch_bounds__(kMostThreads) wgmma_loop(LoopArguments const arguments) {
  using R = RegistersOf<Op>;
  constexpr int kTileA = kTileRowsA * kTileRowBytes, kTileB = kN * kTileRowBytes;
  extern __shared__ __align__(1024) unsigned char tiles[];
  for (int i = threadIdx.x; i < 2 * kTileA / 16 && !kFromRegisters<Op>; i += blockDim.x) {
    reinterpret_cast<uint4*>(tiles)[i] = reinterpret_cast<uint4 const*>(arguments.a)[i];
  }
  for (int i = threadIdx.x; i < 2 * kTileB / 16; i += blockDim.x) {
    reinterpret_cast<uint4*>(tiles + 2 * kTileA)[i] = reinterpret_cast<uint4 const*>(arguments.b)[i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");

  typename R::A a[kSlices][R::kA];
  uint64_t b[kSlices];
#pragma unroll
  for (int slice = 0; slice < kSlices; ++slice) {
    int const tile = slice / 2, offset = slice % 2 * kSliceBytes;
    b[slice] = descriptor(tiles + 2 * kTileA + tile * kTileB + offset * (Sparse<Op>::value ? 2 : 1));
#pragma unroll
    for (int i = 0; i < R::kA; ++i) {
      if constexpr (kFromRegisters<Op>) {
        a[slice][i] = own_register<R::kA, uint32_t>(arguments.a, slice, i);
      } else {
        a[slice][i] = descriptor(tiles + tile * kTileA + offset);
      }
    }
  }
  uint32_t const e = Sparse<Op>::value ? arguments.e[threadIdx.x] : 0;
  typename R::C c[kAccumulators][R::kC];
#pragma unroll
  for (int i = 0; i < kAccumulators; ++i) {
#pragma unroll
    for (int j = 0; j < R::kC; ++j) {
      c[i][j] = 0;
      keep(c[i][j]);
    }
  }
  Stopwatch const watch;
  if (arguments.alone != 0) {
#pragma unroll 1
    for (uint32_t i = 0; i < arguments.blocks; ++i) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      multiply_async<Op>(c[0], a[0], b[0], e, std::make_index_sequence<R::kA>{}, std::make_index_sequence<R::kC>{});
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
  } else {
    repeat(arguments.blocks, [&](auto back) {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i) {
          int const slice = slice_of(step, kSteps, decltype(back)::value, i);
          multiply_async<Op>(c[i], a[slice], b[slice], e, std::make_index_sequence<R::kA>{}, std::make_index_sequence<R::kC>{});
        }
      }
      // Two batches are in flight at any time: the tensor cores never wait for the warps.
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    });
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  watch.stop(arguments.clocks);
  uint32_t digest = 0;
#pragma unroll
  for (int i = 0; i < kAccumulators; ++i) {
#pragma unroll
    for (int j = 0; j < R::kC; ++j) {
      keep(c[i][j]);
      digest += digest_of(c[i][j], i * R::kC + j);
    }
  }
  arguments.digests[blockIdx.x * blockDim.x + threadIdx.x] = digest;
}

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
