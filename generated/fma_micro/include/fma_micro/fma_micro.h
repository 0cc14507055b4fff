/* fma_micro: one 32x32x8 tile, f32 x f32 + f32 -> f32, NT: A M contiguous, B N contiguous. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with M contiguous, B is (N,K) with N contiguous, C and D are (M,N) with N contiguous.
 * Element types: A f32, B f32, C and D f32; sums are kept in f32. */
#ifndef FMA_MICRO_H
#define FMA_MICRO_H

#include <stdint.h>

#if defined(_WIN32)
#define FMA_MICRO_API
#else
#define FMA_MICRO_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum fma_micro_status {
  FMA_MICRO_SUCCESS = 0,
  FMA_MICRO_INVALID_ARGUMENT = 1, /* null or misaligned pointer, negative extent, short leading dimension, a batch with one D */
  FMA_MICRO_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  FMA_MICRO_CUDA_ERROR = 3,       /* the launch failed: cudaGetLastError() says why */
  FMA_MICRO_TOO_LARGE = 4,        /* an extent or a number of CTAs above 2^31 - 16385 */
  FMA_MICRO_FIXED_SHAPE = 5       /* this kernel computes one tile and nothing else */
} fma_micro_status;

typedef float fma_micro_scalar;

/* D = A * B for M, N, K = 32, 32, 8, batch = 1, alpha = 1, beta = 0.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch. */
typedef struct fma_micro_args {
  int64_t m, n, k, batch;
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only where beta is not 0; may be d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  fma_micro_scalar alpha, beta;
} fma_micro_args;

/* What the kernel takes: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and how many CTAs fit on one multiprocessor of the current device. */
typedef struct fma_micro_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} fma_micro_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
FMA_MICRO_API fma_micro_status fma_micro_run(const fma_micro_args *args, struct CUstream_st *stream);

FMA_MICRO_API fma_micro_status fma_micro_query(fma_micro_info *info);

/* One sentence in English; never NULL. */
FMA_MICRO_API const char *fma_micro_status_text(fma_micro_status status);

#ifdef __cplusplus
}
#endif

#endif
