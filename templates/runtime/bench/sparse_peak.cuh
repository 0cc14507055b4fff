// The peak rate of a project's mma.sp, with operands in registers.
#pragma once

#include <cuda_runtime.h>

#include <cute/tensor.hpp>

namespace mmagen {
inline namespace v0_1 {
namespace peak {

/// Independent accumulators of a warp, to hide the latency of each instruction.
inline constexpr int kAccumulators = 8;
inline constexpr int kPeakThreads = 256;

/// Grid: any. Each warp runs iterations * kAccumulators operations, on finite numbers with random mantissas; the first elements
/// of each group are kept. `sink` keeps the compiler from removing the loop; it is never written to, since no thread has the
/// index `never`.
template <class Config>
__global__ void __launch_bounds__(kPeakThreads) loop_kernel(int iterations, int never, uint32_t* sink) {
  using namespace cute;
  using Sum = typename Config::RegisterC;
  uint32_t const metadata = 0x44444444;
  Tensor a = make_tensor<uint32_t>(Int<Config::kRegistersA>{});
  Tensor b = make_tensor<uint32_t>(Int<Config::kRegistersB>{});
  Tensor c = make_tensor<Sum>(make_shape(Int<Config::kRegistersC>{}, Int<kAccumulators>{}));
  for (int i = 0; i < size(a); ++i) { a(i) = (threadIdx.x * 16u + unsigned(i)) * 2654435761u & 0x3f3f3f3fu; }
  for (int i = 0; i < size(b); ++i) { b(i) = (threadIdx.x * 16u + unsigned(i) + 77u) * 2654435761u & 0x3f3f3f3fu; }
  clear(c);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CUTE_UNROLL
    for (int i = 0; i < kAccumulators; ++i) {
      Tensor sums = c(_, i);
      cute::detail::explode(Config::template MmaOpWith<0>::fma, sums, make_int_sequence<Config::kRegistersC>{}, a,
                            make_int_sequence<Config::kRegistersA>{}, b, make_int_sequence<Config::kRegistersB>{}, &metadata,
                            seq<0>{});
    }
  }
  if (int(threadIdx.x) == never) {
    for (int i = 0; i < size(c); ++i) { sink[i] = uint32_t(c(i)); }
  }
}

/// Enqueues the loop on every multiprocessor; returns the status codes of the project's C interface.
template <class Config>
int launch(int iterations, double* flop, cudaStream_t stream) {
  int device = 0, multiprocessors = 0, ctas = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, loop_kernel<Config>, kPeakThreads, 0) != cudaSuccess || ctas == 0) {
    return 3;
  }
  loop_kernel<Config><<<multiprocessors * ctas, kPeakThreads, 0, stream>>>(iterations, -1, nullptr);
  using Traits = cute::MMA_Traits<typename Config::MmaOp>;
  double const operations = double(multiprocessors) * ctas * kPeakThreads / 32 * iterations * kAccumulators;
  *flop = 2.0 * cute::size(typename Traits::Shape_MNK{}) * operations;
  return cudaGetLastError() == cudaSuccess ? 0 : 3;
}

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
