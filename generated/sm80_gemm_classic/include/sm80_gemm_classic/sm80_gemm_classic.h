/* sm80_gemm_classic: GEMM, f16 x f16 + f32 -> f16, TN: A K contiguous, B K contiguous, CTA tile 128x128x32. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with K contiguous, B is (N,K) with K contiguous, C and D are (M,N) with N contiguous.
 * Element types: A f16, B f16, C and D f16; sums are kept in f32. */
#ifndef SM80_GEMM_CLASSIC_H
#define SM80_GEMM_CLASSIC_H

#include <stdint.h>

#if defined(_WIN32)
#define SM80_GEMM_CLASSIC_API
#else
#define SM80_GEMM_CLASSIC_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum sm80_gemm_classic_status {
  SM80_GEMM_CLASSIC_SUCCESS = 0,
  SM80_GEMM_CLASSIC_INVALID_ARGUMENT = 1, /* null or misaligned pointer, negative extent, short leading dimension, a batch with one D */
  SM80_GEMM_CLASSIC_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  SM80_GEMM_CLASSIC_CUDA_ERROR = 3,       /* the launch failed: cudaGetLastError() says why */
  SM80_GEMM_CLASSIC_TOO_LARGE = 4,        /* an extent or a number of CTAs above 2^31 - 16385 */
  SM80_GEMM_CLASSIC_FIXED_SHAPE = 5       /* never from this kernel */
} sm80_gemm_classic_status;

typedef float sm80_gemm_classic_scalar;

/* D = alpha * A * B + beta * C for each matrix of the batch; any m, n, k, any alignment.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch. */
typedef struct sm80_gemm_classic_args {
  int64_t m, n, k, batch;
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only where beta is not 0; may be d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  sm80_gemm_classic_scalar alpha, beta;
} sm80_gemm_classic_args;

/* Resources of the kernel: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and CTAs that run at once on a multiprocessor of the current device. */
typedef struct sm80_gemm_classic_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} sm80_gemm_classic_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
SM80_GEMM_CLASSIC_API sm80_gemm_classic_status sm80_gemm_classic_run(const sm80_gemm_classic_args *args, struct CUstream_st *stream);

SM80_GEMM_CLASSIC_API sm80_gemm_classic_status sm80_gemm_classic_query(sm80_gemm_classic_info *info);

/* One sentence in English; never NULL. */
SM80_GEMM_CLASSIC_API const char *sm80_gemm_classic_status_text(sm80_gemm_classic_status status);

#ifdef __cplusplus
}
#endif

#endif
