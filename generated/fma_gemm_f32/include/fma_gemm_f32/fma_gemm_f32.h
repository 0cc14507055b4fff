/* fma_gemm_f32: GEMM, f32 x f32 + f32 -> f32, NT: A M contiguous, B N contiguous, CTA tile 128x128x8. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with M contiguous, B is (N,K) with N contiguous, C and D are (M,N) with N contiguous.
 * Element types: A f32, B f32, C and D f32; sums are kept in f32. */
#ifndef FMA_GEMM_F32_H
#define FMA_GEMM_F32_H

#include <stdint.h>

#if defined(_WIN32)
#define FMA_GEMM_F32_API
#else
#define FMA_GEMM_F32_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum fma_gemm_f32_status {
  FMA_GEMM_F32_SUCCESS = 0,
  FMA_GEMM_F32_INVALID_ARGUMENT = 1, /* null or misaligned pointer, negative extent, short leading dimension, a batch with one D */
  FMA_GEMM_F32_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  FMA_GEMM_F32_CUDA_ERROR = 3,       /* the launch failed: cudaGetLastError() says why */
  FMA_GEMM_F32_TOO_LARGE = 4,        /* an extent or a number of CTAs above 2^31 - 16385 */
  FMA_GEMM_F32_FIXED_SHAPE = 5       /* never from this kernel */
} fma_gemm_f32_status;

typedef float fma_gemm_f32_scalar;

/* D = alpha * A * B + beta * C for each matrix of the batch; any m, n, k, any alignment.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch. */
typedef struct fma_gemm_f32_args {
  int64_t m, n, k, batch;
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only where beta is not 0; may be d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  fma_gemm_f32_scalar alpha, beta;
} fma_gemm_f32_args;

/* What the kernel takes: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and how many CTAs fit on one multiprocessor of the current device. */
typedef struct fma_gemm_f32_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} fma_gemm_f32_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
FMA_GEMM_F32_API fma_gemm_f32_status fma_gemm_f32_run(const fma_gemm_f32_args *args, struct CUstream_st *stream);

FMA_GEMM_F32_API fma_gemm_f32_status fma_gemm_f32_query(fma_gemm_f32_info *info);

/* One sentence in English; never NULL. */
FMA_GEMM_F32_API const char *fma_gemm_f32_status_text(fma_gemm_f32_status status);

#ifdef __cplusplus
}
#endif

#endif
