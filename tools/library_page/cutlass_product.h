// A product as configurations of CUTLASS's collective builders take it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace cutlass_builder {

/// D = alpha * A * B: A is (M,K,batch), B (N,K,batch), D (M,N,batch). Leading dimensions and batch strides in elements.
struct Product {
  int64_t m, n, k, batch;
  double alpha;
  void const* a;
  void const* b;
  void* d;
  int64_t lda, ldb, ldd;
  int64_t a_batch_stride, b_batch_stride, d_batch_stride;
  cudaStream_t stream;
};

}  // namespace cutlass_builder
