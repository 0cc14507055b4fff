/* sm70_gemm_f16: GEMM, f16 x f16 + f32 -> f16, NT: A M contiguous, B N contiguous, CTA tile 64x64x32. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with M contiguous, B is (N,K) with N contiguous, C and D are (M,N) with N contiguous.
 * Element types: A f16, B f16, C and D f16; sums are kept in f32. */
#ifndef SM70_GEMM_F16_H
#define SM70_GEMM_F16_H

#include <stdint.h>

#if defined(_WIN32)
#define SM70_GEMM_F16_API
#else
#define SM70_GEMM_F16_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum sm70_gemm_f16_status {
  SM70_GEMM_F16_SUCCESS = 0,
  SM70_GEMM_F16_INVALID_ARGUMENT = 1, /* null or misaligned pointer, negative extent, short leading dimension, a batch with one D */
  SM70_GEMM_F16_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  SM70_GEMM_F16_CUDA_ERROR = 3,       /* the launch failed: cudaGetLastError() says why */
  SM70_GEMM_F16_TOO_LARGE = 4,        /* an extent or a number of CTAs above 2^31 - 16385 */
  SM70_GEMM_F16_FIXED_SHAPE = 5       /* never from this kernel */
} sm70_gemm_f16_status;

typedef float sm70_gemm_f16_scalar;

/* D = alpha * A * B + beta * C for each matrix of the batch; any m, n, k, any alignment.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch. */
typedef struct sm70_gemm_f16_args {
  int64_t m, n, k, batch;
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only where beta is not 0; may be d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  sm70_gemm_f16_scalar alpha, beta;
} sm70_gemm_f16_args;

/* What the kernel takes: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and how many CTAs fit on one multiprocessor of the current device. */
typedef struct sm70_gemm_f16_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} sm70_gemm_f16_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
SM70_GEMM_F16_API sm70_gemm_f16_status sm70_gemm_f16_run(const sm70_gemm_f16_args *args, struct CUstream_st *stream);

SM70_GEMM_F16_API sm70_gemm_f16_status sm70_gemm_f16_query(sm70_gemm_f16_info *info);

/* One sentence in English; never NULL. */
SM70_GEMM_F16_API const char *sm70_gemm_f16_status_text(sm70_gemm_f16_status status);

#ifdef __cplusplus
}
#endif

#endif
