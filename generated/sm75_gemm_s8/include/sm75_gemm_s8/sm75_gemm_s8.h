/* sm75_gemm_s8: GEMM, s8 x s8 + s32 -> s32, TN: A K contiguous, B K contiguous, CTA tile 64x64x64. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with K contiguous, B is (N,K) with K contiguous, C and D are (M,N) with N contiguous.
 * Element types: A s8, B s8, C and D s32; sums are kept in s32. */
#ifndef SM75_GEMM_S8_H
#define SM75_GEMM_S8_H

#include <stdint.h>

#if defined(_WIN32)
#define SM75_GEMM_S8_API
#else
#define SM75_GEMM_S8_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum sm75_gemm_s8_status {
  SM75_GEMM_S8_SUCCESS = 0,
  SM75_GEMM_S8_INVALID_ARGUMENT = 1, /* null or misaligned pointer, negative extent, short leading dimension, a batch with one D */
  SM75_GEMM_S8_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  SM75_GEMM_S8_CUDA_ERROR = 3,       /* the launch failed: cudaGetLastError() says why */
  SM75_GEMM_S8_TOO_LARGE = 4,        /* an extent or a number of CTAs above 2^31 - 16385 */
  SM75_GEMM_S8_FIXED_SHAPE = 5       /* never from this kernel */
} sm75_gemm_s8_status;

typedef int32_t sm75_gemm_s8_scalar;

/* D = alpha * A * B + beta * C for each matrix of the batch; any m, n, k, any alignment.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch. */
typedef struct sm75_gemm_s8_args {
  int64_t m, n, k, batch;
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only where beta is not 0; may be d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  sm75_gemm_s8_scalar alpha, beta;
} sm75_gemm_s8_args;

/* What the kernel takes: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and how many CTAs fit on one multiprocessor of the current device. */
typedef struct sm75_gemm_s8_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} sm75_gemm_s8_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
SM75_GEMM_S8_API sm75_gemm_s8_status sm75_gemm_s8_run(const sm75_gemm_s8_args *args, struct CUstream_st *stream);

SM75_GEMM_S8_API sm75_gemm_s8_status sm75_gemm_s8_query(sm75_gemm_s8_info *info);

/* One sentence in English; never NULL. */
SM75_GEMM_S8_API const char *sm75_gemm_s8_status_text(sm75_gemm_s8_status status);

#ifdef __cplusplus
}
#endif

#endif
