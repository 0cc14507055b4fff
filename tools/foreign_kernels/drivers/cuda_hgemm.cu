// A kernel of cuda_hgemm: SOURCE, its file, and FUNCTION, its host function. A and B have K contiguous, C has N.
#include <cuda_fp16.h>

#include <cstddef>

#include "driver.h"
#include SOURCE

extern "C" int run(Gemm const* g) {
  auto* const a = static_cast<half*>(const_cast<void*>(g->a));
  auto* const b = static_cast<half*>(const_cast<void*>(g->b));
  FUNCTION(a, b, static_cast<half*>(g->d), size_t(g->m), size_t(g->n), size_t(g->k));
  return int(cudaGetLastError());
}
