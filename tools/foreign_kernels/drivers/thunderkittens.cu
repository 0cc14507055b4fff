// Calls the host function of one of ThunderKittens' GEMMs (SOURCE: its file). A is (M,K), B is (K,N), both row major.
// WIDE: the prototype's matmul_template<2, 4, 8> instead of a function matmul(a, b, c, n).
#define main thunderkittens_main
#include SOURCE
#undef main

#include "driver.h"

extern "C" int run(Gemm const* g) {
  auto* const a = static_cast<__nv_bfloat16*>(const_cast<void*>(g->a));
  auto* const b = static_cast<__nv_bfloat16*>(const_cast<void*>(g->b));
  auto* const d = static_cast<__nv_bfloat16*>(g->d);
#ifdef WIDE
  using Template = matmul_template<2, 4, 8>;
  cudaFuncSetAttribute(prototype::lcf::kernel<Template>, cudaFuncAttributeMaxDynamicSharedMemorySize, MAX_SHARED_MEMORY - 1024);
  // Two CTAs, so that each computes several tiles.
  inner_run<Template>(a, b, d, g->m, g->n, g->k, dim3(2), dim3(kittens::prototype::detail::NUM_THREADS_v<Template>));
#else
  matmul(a, b, d, g->n);
#endif
  return cudaGetLastError();
}
