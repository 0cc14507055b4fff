/* sm90_micro_bf16: one 64x64x64 tile, bf16 x bf16 + f32 -> f32, TN: A K contiguous, B K contiguous. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with K contiguous, B is (N,K) with K contiguous, C and D are (M,N) with N contiguous.
 * Element types: A bf16, B bf16, C and D f32; sums are kept in f32. */
#ifndef SM90_MICRO_BF16_H
#define SM90_MICRO_BF16_H

#include <stdint.h>

#if defined(_WIN32)
#define SM90_MICRO_BF16_API
#else
#define SM90_MICRO_BF16_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum sm90_micro_bf16_status {
  SM90_MICRO_BF16_SUCCESS = 0,
  SM90_MICRO_BF16_INVALID_ARGUMENT = 1, /* null or misaligned pointer, negative extent, short leading dimension, a batch with one D */
  SM90_MICRO_BF16_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  SM90_MICRO_BF16_CUDA_ERROR = 3,       /* the launch failed: cudaGetLastError() says why */
  SM90_MICRO_BF16_TOO_LARGE = 4,        /* an extent or a number of CTAs above 2^31 - 16385 */
  SM90_MICRO_BF16_FIXED_SHAPE = 5       /* this kernel computes one tile and nothing else */
} sm90_micro_bf16_status;

typedef float sm90_micro_bf16_scalar;

/* D = A * B for M, N, K = 64, 64, 64, batch = 1, alpha = 1, beta = 0.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch. */
typedef struct sm90_micro_bf16_args {
  int64_t m, n, k, batch;
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only where beta is not 0; may be d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  sm90_micro_bf16_scalar alpha, beta;
} sm90_micro_bf16_args;

/* Resources of the kernel: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and CTAs that run at once on a multiprocessor of the current device. */
typedef struct sm90_micro_bf16_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} sm90_micro_bf16_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
SM90_MICRO_BF16_API sm90_micro_bf16_status sm90_micro_bf16_run(const sm90_micro_bf16_args *args, struct CUstream_st *stream);

SM90_MICRO_BF16_API sm90_micro_bf16_status sm90_micro_bf16_query(sm90_micro_bf16_info *info);

/* One sentence in English; never NULL. */
SM90_MICRO_BF16_API const char *sm90_micro_bf16_status_text(sm90_micro_bf16_status status);

#ifdef __cplusplus
}
#endif

#endif
