/* sm90_gemm_bf16_pingpong: GEMM, bf16 x bf16 + f32 -> bf16, TN: A K contiguous, B K contiguous, CTA tile 64x256x64. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with K contiguous, B is (N,K) with K contiguous, C and D are (M,N) with N contiguous.
 * Element types: A bf16, B bf16, C and D bf16; sums are kept in f32. */
#ifndef SM90_GEMM_BF16_PINGPONG_H
#define SM90_GEMM_BF16_PINGPONG_H

#include <stdint.h>

#if defined(_WIN32)
#define SM90_GEMM_BF16_PINGPONG_API
#else
#define SM90_GEMM_BF16_PINGPONG_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum sm90_gemm_bf16_pingpong_status {
  SM90_GEMM_BF16_PINGPONG_SUCCESS = 0,
  SM90_GEMM_BF16_PINGPONG_INVALID_ARGUMENT = 1, /* null or misaligned pointer, negative extent, short leading dimension, a batch with one D */
  SM90_GEMM_BF16_PINGPONG_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  SM90_GEMM_BF16_PINGPONG_CUDA_ERROR = 3,       /* the launch failed: cudaGetLastError() says why */
  SM90_GEMM_BF16_PINGPONG_TOO_LARGE = 4,        /* an extent or a number of CTAs above 2^31 - 16385 */
  SM90_GEMM_BF16_PINGPONG_FIXED_SHAPE = 5       /* never from this kernel */
} sm90_gemm_bf16_pingpong_status;

typedef float sm90_gemm_bf16_pingpong_scalar;

/* D = alpha * A * B + beta * C for each matrix of the batch; any m, n, k, any alignment.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch. */
typedef struct sm90_gemm_bf16_pingpong_args {
  int64_t m, n, k, batch;
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only where beta is not 0; may be d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  sm90_gemm_bf16_pingpong_scalar alpha, beta;
} sm90_gemm_bf16_pingpong_args;

/* Resources of the kernel: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and CTAs that run at once on a multiprocessor of the current device. */
typedef struct sm90_gemm_bf16_pingpong_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} sm90_gemm_bf16_pingpong_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
SM90_GEMM_BF16_PINGPONG_API sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_run(const sm90_gemm_bf16_pingpong_args *args, struct CUstream_st *stream);

SM90_GEMM_BF16_PINGPONG_API sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_query(sm90_gemm_bf16_pingpong_info *info);

/* One sentence in English; never NULL. */
SM90_GEMM_BF16_PINGPONG_API const char *sm90_gemm_bf16_pingpong_status_text(sm90_gemm_bf16_pingpong_status status);

#ifdef __cplusplus
}
#endif

#endif
