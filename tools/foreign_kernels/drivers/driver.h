// The arguments that every driver takes: one product D = alpha * A * B + beta * C. Pointers are device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

struct Gemm {
  int64_t m, n, k, batch;
  void const *a, *b, *c;
  void* d;
  int64_t lda, ldb, ldc, ldd;  // elements from one row or column to the next
  float alpha, beta;
  void* workspace;
  int64_t workspace_bytes;
  void const *scale_a, *scale_b;  // of DeepGEMM
  int64_t trans_a, trans_b;       // 'N' or 'T', as in BLAS
};
