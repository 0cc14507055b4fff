/* micro_fp8: one 16x16x64 tile, e4m3 x e5m2 + f32 -> f32, TN: A K contiguous, B K contiguous. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with K contiguous, B is (N,K) with K contiguous, C and D are (M,N) with N contiguous.
 * Element types: A e4m3, B e5m2, C and D f32; sums are kept in f32. */
#ifndef MICRO_FP8_H
#define MICRO_FP8_H

#include <stdint.h>

#if defined(_WIN32)
#define MICRO_FP8_API
#else
#define MICRO_FP8_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum micro_fp8_status {
  MICRO_FP8_SUCCESS = 0,
  MICRO_FP8_INVALID_ARGUMENT = 1, /* null or misaligned pointer, negative extent, short leading dimension, a batch with one D */
  MICRO_FP8_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  MICRO_FP8_CUDA_ERROR = 3,       /* the launch failed: cudaGetLastError() says why */
  MICRO_FP8_TOO_LARGE = 4,        /* an extent or a number of CTAs above 2^31 - 16385 */
  MICRO_FP8_FIXED_SHAPE = 5       /* this kernel computes one tile and nothing else */
} micro_fp8_status;

typedef float micro_fp8_scalar;

/* D = A * B for M, N, K = 16, 16, 64, batch = 1, alpha = 1, beta = 0.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch. */
typedef struct micro_fp8_args {
  int64_t m, n, k, batch;
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only where beta is not 0; may be d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  micro_fp8_scalar alpha, beta;
} micro_fp8_args;

/* What the kernel takes: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and how many CTAs fit on one multiprocessor of the current device. */
typedef struct micro_fp8_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} micro_fp8_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
MICRO_FP8_API micro_fp8_status micro_fp8_run(const micro_fp8_args *args, struct CUstream_st *stream);

MICRO_FP8_API micro_fp8_status micro_fp8_query(micro_fp8_info *info);

/* One sentence in English; never NULL. */
MICRO_FP8_API const char *micro_fp8_status_text(micro_fp8_status status);

#ifdef __cplusplus
}
#endif

#endif
