// A GEMM of CUTLASS 2.x for sm_80 through its device adapter. Macros choose: ELEMENT_A, ELEMENT_B, ELEMENT_C (of C and D),
// ACCUMULATOR; LAYOUT_A, LAYOUT_B, LAYOUT_C; TILE_, WARP_ and MMA_ with M, N and K; STAGES; SPLITS (serial split-K), BATCHED.
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/device/gemm_universal.h>

#include "driver.h"

#ifndef SPLITS
#define SPLITS 1
#endif

using ElementA = ELEMENT_A;
using ElementB = ELEMENT_B;
using ElementC = ELEMENT_C;
using Accumulator = ACCUMULATOR;
constexpr int kAlignA = 128 / cutlass::sizeof_bits<ElementA>::value;
constexpr int kAlignB = 128 / cutlass::sizeof_bits<ElementB>::value;
constexpr int kAlignC = 128 / cutlass::sizeof_bits<ElementC>::value;
#ifdef MULTIPLY_ADD_SATURATE
using Operator = cutlass::arch::OpMultiplyAddSaturate;
#else
using Operator = cutlass::arch::OpMultiplyAdd;
#endif
// The multistage kernel of f64 copies single elements.
constexpr bool kDouble = sizeof(ElementA) == 8;

using Device = cutlass::gemm::device::GemmUniversal<
    ElementA, cutlass::layout::LAYOUT_A, ElementB, cutlass::layout::LAYOUT_B, ElementC, cutlass::layout::LAYOUT_C, Accumulator,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, cutlass::gemm::GemmShape<TILE_M, TILE_N, TILE_K>,
    cutlass::gemm::GemmShape<WARP_M, WARP_N, WARP_K>, cutlass::gemm::GemmShape<MMA_M, MMA_N, MMA_K>,
    cutlass::epilogue::thread::LinearCombination<ElementC, kDouble ? 1 : kAlignC, Accumulator, Accumulator>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, STAGES, kDouble ? 1 : kAlignA, kDouble ? 1 : kAlignB,
    Operator>;

extern "C" int run(Gemm const* g) {
  int const m = int(g->m), n = int(g->n), k = int(g->k);
#ifdef BATCHED
  auto const mode = cutlass::gemm::GemmUniversalMode::kBatched;
  int const count = int(g->batch);
#else
  auto const mode = cutlass::gemm::GemmUniversalMode::kGemm;
  int const count = SPLITS;
#endif
  typename Device::Arguments arguments(mode, {m, n, k}, count, {Accumulator(g->alpha), Accumulator(g->beta)}, g->a, g->b, g->c,
                                       g->d, int64_t(m) * k, int64_t(n) * k, int64_t(m) * n, int64_t(m) * n, g->lda, g->ldb,
                                       g->ldc, g->ldd);
  Device gemm;
  if (Device::get_workspace_size(arguments) > size_t(g->workspace_bytes)) { return 1001; }
  cutlass::Status status = gemm.can_implement(arguments);
  if (status == cutlass::Status::kSuccess) { status = gemm.initialize(arguments, g->workspace); }
  if (status == cutlass::Status::kSuccess) { status = gemm.run(); }
  return status == cutlass::Status::kSuccess ? int(cudaGetLastError()) : 1000 + int(status);
}
