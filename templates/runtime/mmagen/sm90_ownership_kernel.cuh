// Ownership in a TiledMMA of wgmma: every thread marks the elements in its registers. For operands that the instruction reads
// from shared memory, one thread marks the position of each element.
#pragma once

#include "ownership_kernel.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// Every thread's own copy of the matrix, as in ownership_kernel.cuh.
template <class Rows, class Columns>
CUTE_DEVICE auto own_plane(int* stamps, Rows rows, Columns columns) {
  return cute::make_tensor(cute::make_gmem_ptr(stamps + threadIdx.x * cute::size(rows) * cute::size(columns)),
                           cute::make_layout(cute::make_shape(rows, columns), cute::LayoutRight{}));
}

/// An element of (rows, columns) gets 1 + the elements between the first byte of the stage and its own, by its address.
template <class Operand>
CUTE_DEVICE void stamp_stage(int* stamps, unsigned char* smem) {
  using namespace cute;
  using Element = typename Operand::Element;
  auto const first = reinterpret_cast<Element*>(smem);
  Tensor stage = make_tensor(make_smem_ptr(first), typename Operand::SmemLayout{})(_, _, 0);  // (BLK_MN,BLK_K)
  for (int i = threadIdx.x; i < size(stage); i += blockDim.x) {
    int const row = i / size<1>(stage);
    int const column = i % size<1>(stage);
    stamps[i] = 1 + int(raw_pointer_cast(&stage(row, column)) - first);
  }
}

}  // namespace detail

/// Grid: 1 CTA of all threads of the TiledMMA. a, b, c: (threads, rows, columns) of what lies in registers, (rows, columns) of
/// what lies in shared memory; zero before the launch. Dynamic shared memory: Config::kSmemBytes, which is only addressed.
template <class Config>
__global__ void __launch_bounds__(Config::kThreads) sm90_ownership_kernel(int* a, int* b, int* c) {
  using namespace cute;
  static_assert(size(typename Config::TiledMma{}) == Config::kThreads, "the plan and the TiledMMA disagree");
  // The 128-byte swizzle is a function of address bits: a stage begins at a multiple of 1024 bytes.
  extern __shared__ __align__(1024) unsigned char smem[];
  typename Config::TiledMma mma;
  auto thread_mma = mma.get_slice(threadIdx.x);
  if constexpr (Config::kStagedA) {
    static_assert(sizeof(typename Config::A::Element) * cosize_v<typename Config::A::SmemLayout> <= Config::kSmemBytes);
    detail::stamp_stage<typename Config::A>(a, smem);
  } else {
    auto const plane = detail::own_plane(a, Int<Config::kTileM>{}, Int<Config::kTileK>{});
    detail::stamp(thread_mma.partition_A(plane));  // (MMA,MMA_M,MMA_K)
  }
  static_assert(sizeof(typename Config::B::Element) * cosize_v<typename Config::B::SmemLayout> <= Config::kSmemBytes);
  detail::stamp_stage<typename Config::B>(b, smem);
  auto const plane = detail::own_plane(c, Int<Config::kTileM>{}, Int<Config::kTileN>{});
  detail::stamp(thread_mma.partition_C(plane));  // (MMA,MMA_M,MMA_N)
}

/// Stamps on the device; a, b, c are device memory, zeroed by the caller.
template <class Config>
Status run_sm90_ownership(int* a, int* b, int* c, cudaStream_t stream) {
  return launch_kernel(&sm90_ownership_kernel<Config>, 1, Config::kThreads, Config::kSmemBytes, stream, Launch::kYes, a, b, c);
}

}  // namespace v0_1
}  // namespace mmagen
