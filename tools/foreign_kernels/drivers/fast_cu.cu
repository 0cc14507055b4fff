// Kernel NUMBER (2 to 12) of fast.cu. A and B have K contiguous, C has M. Its headers take what these lines declare from the
// program that includes them, and constants from each other.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda/barrier>

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "driver.h"

using bf16 = __nv_bfloat16;
#define CEIL_DIV(M, N) (((M) + (N) - 1) / (N))
inline void cudaCheck(cudaError_t error) {
  if (error != cudaSuccess) { std::abort(); }
}

#include "examples/matmul/matmul_2.cuh"
#if NUMBER > 2
#include "examples/matmul/matmul_3.cuh"
#endif
#if NUMBER > 3
#include "examples/matmul/matmul_4.cuh"
#endif
#if NUMBER > 4
#include "examples/matmul/matmul_5.cuh"
#endif
#if NUMBER > 5
#include "examples/matmul/matmul_6.cuh"
#endif
#if NUMBER > 6
#include "examples/matmul/matmul_7.cuh"
#endif
#if NUMBER > 7
#include "examples/matmul/matmul_8.cuh"
#endif
#if NUMBER > 8
#include "examples/matmul/matmul_9.cuh"
#endif
#if NUMBER > 9
#include "examples/matmul/matmul_10.cuh"
#endif
#if NUMBER > 10
#include "examples/matmul/matmul_11.cuh"
#endif
#if NUMBER > 11
#include "examples/matmul/matmul_12.cuh"
#endif
#define CONCATENATED(A, B) A##B
#define FUNCTION(N) CONCATENATED(runKernel, N)

extern "C" int run(Gemm const* g) {
  auto* const a = static_cast<bf16*>(const_cast<void*>(g->a));
  auto* const b = static_cast<bf16*>(const_cast<void*>(g->b));
  auto* const d = static_cast<bf16*>(g->d);
#if NUMBER > 2
  FUNCTION(NUMBER)(int(g->m), int(g->n), int(g->k), a, b, d, nullptr);
#else
  FUNCTION(NUMBER)(int(g->m), int(g->n), int(g->k), a, b, d);
#endif
  return int(cudaGetLastError());
}
