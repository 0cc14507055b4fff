// The peak rate of an MMA instruction, with operands in registers.
#pragma once

#include <cuda_runtime.h>

#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>

namespace mmagen {
inline namespace v0_1 {
namespace peak {

/// Independent accumulators of a warp, to hide the latency of each instruction.
inline constexpr int kAccumulators = 8;
inline constexpr int kThreads = 256;

/// Small values with random mantissas; zeros would take less power and so run at a higher clock. `code`: any number.
template <class Element>
CUTE_DEVICE Element operand_value(unsigned code) {
  unsigned const hash = (code * 2654435761u) >> 8;
  if constexpr (cute::is_same_v<Element, int8_t> || cute::is_same_v<Element, uint8_t> || cute::is_same_v<Element, int16_t>) {
    return static_cast<Element>(hash);
  } else {
    return static_cast<Element>(float(hash % 2001u) * 0.001f - 1.0f);
  }
}

/// Grid: any. Each warp runs iterations * kAccumulators atoms. `sink` keeps the compiler from removing the loop; it is never
/// written to, since no thread has the index `never`.
template <class Op>
__global__ void __launch_bounds__(kThreads) loop_kernel(int iterations, int never, float* sink) {
  using namespace cute;
  using Atom = MMA_Atom<Op>;
  using Traits = MMA_Traits<Op>;
  Atom atom;
  Tensor rA = make_tensor<typename Traits::ValTypeA>(Shape<Int<decltype(size<1>(typename Atom::LayoutA_TV{}))::value>>{});
  Tensor rB = make_tensor<typename Traits::ValTypeB>(Shape<Int<decltype(size<1>(typename Atom::LayoutB_TV{}))::value>>{});
  Tensor rC = make_tensor<typename Traits::ValTypeC>(
      Shape<Int<decltype(size<1>(typename Atom::LayoutC_TV{}))::value>, Int<kAccumulators>>{});
  for (int i = 0; i < size(rA); ++i) { rA(i) = operand_value<typename Traits::ValTypeA>(threadIdx.x * 16 + i); }
  for (int i = 0; i < size(rB); ++i) { rB(i) = operand_value<typename Traits::ValTypeB>(threadIdx.x * 16 + 77 + i); }
  clear(rC);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    CUTE_UNROLL
    for (int i = 0; i < kAccumulators; ++i) { gemm(atom, rA, rB, rC(_, i)); }
  }
  if (int(threadIdx.x) == never) {
    for (int i = 0; i < size(rC); ++i) {
      if constexpr (is_complex<typename Traits::ValTypeC>::value) {
        sink[i] = static_cast<float>(rC(i).real() + rC(i).imag());
      } else {
        sink[i] = static_cast<float>(rC(i));
      }
    }
  }
}

/// Enqueues the loop on every multiprocessor; returns the status codes of the project's C interface.
template <class Op>
int launch(int iterations, double* flop, cudaStream_t stream) {
  using Traits = cute::MMA_Traits<Op>;
  int device = 0, multiprocessors = 0, ctas = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, loop_kernel<Op>, kThreads, 0) != cudaSuccess || ctas == 0) {
    return 3;
  }
  loop_kernel<Op><<<multiprocessors * ctas, kThreads, 0, stream>>>(iterations, -1, nullptr);
  auto const shape = typename Traits::Shape_MNK{};
  double const atoms = double(multiprocessors) * ctas * kThreads / cute::size(typename Traits::ThrID{});
  double const real = cute::is_complex<typename Traits::ValTypeA>::value ? 4.0 : 1.0;  // real products of a product
  *flop = 2.0 * real * cute::size(shape) * atoms * iterations * kAccumulators;
  return cudaGetLastError() == cudaSuccess ? 0 : 3;
}

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
