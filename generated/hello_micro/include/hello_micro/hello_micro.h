/* hello_micro: one 32x32x32 tile, f16 x f16 + f32 -> f32, TN: A K contiguous, B K contiguous. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with K contiguous, B is (N,K) with K contiguous, C and D are (M,N) with N contiguous.
 * Element types: A f16, B f16, C and D f32; sums are kept in f32. */
#ifndef HELLO_MICRO_H
#define HELLO_MICRO_H

#include <stdint.h>

#if defined(_WIN32)
#define HELLO_MICRO_API
#else
#define HELLO_MICRO_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum hello_micro_status {
  HELLO_MICRO_SUCCESS = 0,
  HELLO_MICRO_INVALID_ARGUMENT = 1, /* null or misaligned pointer, negative extent, short leading dimension, a batch with one D */
  HELLO_MICRO_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  HELLO_MICRO_CUDA_ERROR = 3,       /* the launch failed: cudaGetLastError() says why */
  HELLO_MICRO_TOO_LARGE = 4,        /* an extent or a number of CTAs above 2^31 - 16385 */
  HELLO_MICRO_FIXED_SHAPE = 5       /* this kernel computes one tile and nothing else */
} hello_micro_status;

typedef float hello_micro_scalar;

/* D = A * B for M, N, K = 32, 32, 32, batch = 1, alpha = 1, beta = 0.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch. */
typedef struct hello_micro_args {
  int64_t m, n, k, batch;
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only where beta is not 0; may be d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  hello_micro_scalar alpha, beta;
} hello_micro_args;

/* Resources of the kernel: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and CTAs that run at once on a multiprocessor of the current device. */
typedef struct hello_micro_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} hello_micro_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
HELLO_MICRO_API hello_micro_status hello_micro_run(const hello_micro_args *args, struct CUstream_st *stream);

HELLO_MICRO_API hello_micro_status hello_micro_query(hello_micro_info *info);

/* One sentence in English; never NULL. */
HELLO_MICRO_API const char *hello_micro_status_text(hello_micro_status status);

#ifdef __cplusplus
}
#endif

#endif
