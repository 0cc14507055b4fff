/* micro_volta: one 32x32x8 tile, f16 x f16 + f32 -> f32, NT: A M contiguous, B N contiguous. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with M contiguous, B is (N,K) with N contiguous, C and D are (M,N) with N contiguous.
 * Element types: A f16, B f16, C and D f32; sums are kept in f32. */
#ifndef MICRO_VOLTA_H
#define MICRO_VOLTA_H

#include <stdint.h>

#if defined(_WIN32)
#define MICRO_VOLTA_API
#else
#define MICRO_VOLTA_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum micro_volta_status {
  MICRO_VOLTA_SUCCESS = 0,
  MICRO_VOLTA_INVALID_ARGUMENT = 1, /* null or misaligned pointer, negative extent, short leading dimension, a batch with one D */
  MICRO_VOLTA_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  MICRO_VOLTA_CUDA_ERROR = 3,       /* the launch failed: cudaGetLastError() says why */
  MICRO_VOLTA_TOO_LARGE = 4,        /* an extent or a number of CTAs above 2^31 - 16385 */
  MICRO_VOLTA_FIXED_SHAPE = 5       /* this kernel computes one tile and nothing else */
} micro_volta_status;

typedef float micro_volta_scalar;

/* D = A * B for M, N, K = 32, 32, 8, batch = 1, alpha = 1, beta = 0.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch. */
typedef struct micro_volta_args {
  int64_t m, n, k, batch;
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only where beta is not 0; may be d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  micro_volta_scalar alpha, beta;
} micro_volta_args;

/* What the kernel takes: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and how many CTAs fit on one multiprocessor of the current device. */
typedef struct micro_volta_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} micro_volta_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
MICRO_VOLTA_API micro_volta_status micro_volta_run(const micro_volta_args *args, struct CUstream_st *stream);

MICRO_VOLTA_API micro_volta_status micro_volta_query(micro_volta_info *info);

/* One sentence in English; never NULL. */
MICRO_VOLTA_API const char *micro_volta_status_text(micro_volta_status status);

#ifdef __cplusplus
}
#endif

#endif
