// SPDX-License-Identifier: MIT-0
/* sm90_gemm_bf16_pingpong: GEMM, bf16 x bf16 + f32 -> bf16, TN: A K contiguous, B K contiguous, CTA tile 64x256x64. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with K contiguous, B is (N,K) with K contiguous, C and D are (M,N) with N contiguous.
 * Element types: A bf16, B bf16, C and D bf16; sums are kept in f32. */
#ifndef SM90_GEMM_BF16_PINGPONG_H
#define SM90_GEMM_BF16_PINGPONG_H

#include <stddef.h>
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

/* What a call returns. The numbers are the same for all libraries made by mmagen. */
typedef enum sm90_gemm_bf16_pingpong_status {
  SM90_GEMM_BF16_PINGPONG_SUCCESS = 0,
  /* about the device; sm90_gemm_bf16_pingpong_cuda_error() returns CUDA's own code, if there is one */
  SM90_GEMM_BF16_PINGPONG_CUDA_ERROR = 1,   /* the launch was refused, or an earlier one has failed */
  SM90_GEMM_BF16_PINGPONG_NO_DRIVER = 2,    /* this machine has no CUDA driver */
  SM90_GEMM_BF16_PINGPONG_OLD_DRIVER = 3,   /* the driver is older than the CUDA that the library was built with */
  SM90_GEMM_BF16_PINGPONG_NO_DEVICE = 4,    /* the driver shows no device */
  SM90_GEMM_BF16_PINGPONG_WRONG_DEVICE = 5, /* the library has no code for the current device's architecture */
  SM90_GEMM_BF16_PINGPONG_SMALL_DEVICE = 6, /* too little shared memory for a CTA, or no SMs for a cluster */
  /* about the arguments */
  SM90_GEMM_BF16_PINGPONG_NULL_ARGS = 16,      /* no struct */
  SM90_GEMM_BF16_PINGPONG_STRUCT_SIZE = 17,    /* struct_size is less than the size of the struct here, or members beyond it are not zero */
  SM90_GEMM_BF16_PINGPONG_FIXED_SHAPE = 18,    /* never from this kernel */
  SM90_GEMM_BF16_PINGPONG_TOO_MANY_TILES = 19, /* m, n and batch make more than 2^31 - 16385 output tiles, or more than 2^31 - 1 CTAs */
  SM90_GEMM_BF16_PINGPONG_WRONG_STREAM = 20,   /* the stream belongs to another device than the current one */
  SM90_GEMM_BF16_PINGPONG_FOREIGN_MEMORY = 21, /* memory that the current device cannot access; only can_run returns this */
  SM90_GEMM_BF16_PINGPONG_NEGATIVE_M = 32,
  SM90_GEMM_BF16_PINGPONG_NEGATIVE_N = 33,
  SM90_GEMM_BF16_PINGPONG_NEGATIVE_K = 34,
  SM90_GEMM_BF16_PINGPONG_NEGATIVE_BATCH = 35,
  SM90_GEMM_BF16_PINGPONG_TOO_LARGE_M = 40, /* above 2^31 - 16385 */
  SM90_GEMM_BF16_PINGPONG_TOO_LARGE_N = 41,
  SM90_GEMM_BF16_PINGPONG_TOO_LARGE_K = 42,
  SM90_GEMM_BF16_PINGPONG_NULL_A = 48,
  SM90_GEMM_BF16_PINGPONG_NULL_B = 49,
  SM90_GEMM_BF16_PINGPONG_NULL_C = 50, /* although beta is not 0, so that C is read */
  SM90_GEMM_BF16_PINGPONG_NULL_D = 51,
  SM90_GEMM_BF16_PINGPONG_NULL_METADATA_A = 52,
  SM90_GEMM_BF16_PINGPONG_NULL_SCALE_A = 53,
  SM90_GEMM_BF16_PINGPONG_NULL_SCALE_B = 54,
  SM90_GEMM_BF16_PINGPONG_MISALIGNED_A = 64, /* not aligned to an element */
  SM90_GEMM_BF16_PINGPONG_MISALIGNED_B = 65,
  SM90_GEMM_BF16_PINGPONG_MISALIGNED_C = 66,
  SM90_GEMM_BF16_PINGPONG_MISALIGNED_D = 67,
  SM90_GEMM_BF16_PINGPONG_MISALIGNED_METADATA_A = 68,
  SM90_GEMM_BF16_PINGPONG_MISALIGNED_SCALE_A = 69,
  SM90_GEMM_BF16_PINGPONG_MISALIGNED_SCALE_B = 70,
  SM90_GEMM_BF16_PINGPONG_MISALIGNED_ALPHA = 71,     /* alpha_device */
  SM90_GEMM_BF16_PINGPONG_MISALIGNED_BETA = 72,      /* beta_device */
  SM90_GEMM_BF16_PINGPONG_MISALIGNED_WORKSPACE = 73, /* not aligned to 16 bytes */
  SM90_GEMM_BF16_PINGPONG_SHORT_LDA = 80,            /* less than the extent of A along its contiguous mode */
  SM90_GEMM_BF16_PINGPONG_SHORT_LDB = 81,
  SM90_GEMM_BF16_PINGPONG_SHORT_LDC = 82,
  SM90_GEMM_BF16_PINGPONG_SHORT_LDD = 83,
  SM90_GEMM_BF16_PINGPONG_ALPHA_NOT_INTEGER = 96, /* the scalars of the kernel are 32-bit integers */
  SM90_GEMM_BF16_PINGPONG_BETA_NOT_INTEGER = 97,
  SM90_GEMM_BF16_PINGPONG_SHARED_D = 98, /* batch_stride_d is 0: all matrices would be written to the same D */
  SM90_GEMM_BF16_PINGPONG_NEGATIVE_STRIDE_A = 128, /* batch_stride_a, if there are several matrices */
  SM90_GEMM_BF16_PINGPONG_NEGATIVE_STRIDE_B = 129,
  SM90_GEMM_BF16_PINGPONG_NEGATIVE_STRIDE_C = 130,
  SM90_GEMM_BF16_PINGPONG_NEGATIVE_STRIDE_D = 131,
  SM90_GEMM_BF16_PINGPONG_TOO_LARGE_A = 168, /* with its lda and batch_stride_a, A takes more than 2^63 - 1 bytes */
  SM90_GEMM_BF16_PINGPONG_TOO_LARGE_B = 169,
  SM90_GEMM_BF16_PINGPONG_TOO_LARGE_C = 170,
  SM90_GEMM_BF16_PINGPONG_TOO_LARGE_D = 171
} sm90_gemm_bf16_pingpong_status;

typedef float sm90_gemm_bf16_pingpong_scalar;

/* D = alpha * A * B + beta * C for each matrix of the batch; any m, n, k, any alignment.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch.
 */
/* The arguments of a call, the same for all libraries made by mmagen: the layout does not depend on the kernel. Later versions
 * add members at the end. A library refuses a struct that is shorter than the one it knows, and a longer one unless all
 * members that it does not know are zero. Begin with SM90_GEMM_BF16_PINGPONG_ARGS_INIT, or with zeros and struct_size. */
typedef struct sm90_gemm_bf16_pingpong_args {
  uint64_t struct_size;   /* sizeof(struct sm90_gemm_bf16_pingpong_args) */
  int64_t m, n, k, batch; /* batch 0 means 1 */
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only if beta is not 0; may be equal to d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  double alpha, beta;       /* converted to sm90_gemm_bf16_pingpong_scalar */
  const void *alpha_device; /* NULL, or a sm90_gemm_bf16_pingpong_scalar in device memory that the kernel reads instead of alpha */
  const void *beta_device;  /* the same for beta; c must be given then */
  void *workspace;          /* NULL, or device memory: see sm90_gemm_bf16_pingpong_workspace_bytes */
  int64_t workspace_bytes;
  const void *metadata_a; /* for sparse operations, else not read */
  const void *scale_a;    /* for block-scaled operations, else not read */
  const void *scale_b;
} sm90_gemm_bf16_pingpong_args;

/* alpha 1, beta 0, one matrix. */
#define SM90_GEMM_BF16_PINGPONG_ARGS_INIT \
  {sizeof(struct sm90_gemm_bf16_pingpong_args), 0, 0, 0, 1, NULL, 0, 0, NULL, 0, 0, NULL, 0, 0, NULL, 0, 0, \
   1.0, 0.0, NULL, NULL, NULL, 0, NULL, NULL, NULL}

/* Resources of the kernel: threads per CTA, registers and bytes of local memory per thread, bytes of shared memory per CTA,
 * and CTAs that run at once on a multiprocessor of the current device. */
typedef struct sm90_gemm_bf16_pingpong_info {
  uint64_t struct_size; /* sizeof(struct sm90_gemm_bf16_pingpong_info), set by the caller */
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} sm90_gemm_bf16_pingpong_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
SM90_GEMM_BF16_PINGPONG_API sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_run(const sm90_gemm_bf16_pingpong_args *args, struct CUstream_st *stream);

/* What sm90_gemm_bf16_pingpong_run would return on the current device, without launching anything. If that is success, it also asks the driver
 * where the memory of each pointer is, which sm90_gemm_bf16_pingpong_run does not do: SM90_GEMM_BF16_PINGPONG_FOREIGN_MEMORY. */
SM90_GEMM_BF16_PINGPONG_API sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_can_run(const sm90_gemm_bf16_pingpong_args *args);

/* Bytes of workspace that a call with these arguments can use on the current device, 0 for none.
 * It is for copies of operands that do not meet TMA's alignment requirements.
 * Only extents, leading dimensions, strides and the alignment of A and B are read.
 * A workspace is aligned to 16 bytes, may have any contents, and must not be used by concurrent calls. Without one, or with
 * a smaller one, results are correct, but such problems are slower. */
SM90_GEMM_BF16_PINGPONG_API sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_workspace_bytes(const sm90_gemm_bf16_pingpong_args *args, int64_t *bytes);

SM90_GEMM_BF16_PINGPONG_API sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_query(sm90_gemm_bf16_pingpong_info *info);

/* The name of the kernel that a call with these arguments runs: always sm90_gemm_bf16_pingpong. Never NULL. */
SM90_GEMM_BF16_PINGPONG_API const char *sm90_gemm_bf16_pingpong_config_name(const sm90_gemm_bf16_pingpong_args *args);

/* One sentence in English for a status; never NULL. */
SM90_GEMM_BF16_PINGPONG_API const char *sm90_gemm_bf16_pingpong_status_text(sm90_gemm_bf16_pingpong_status status);

/* The same for the last call of this thread that returned a status, with the values concerned, e.g. "lda is 100; a line of A
 * along K has 128 elements". Valid until the thread's next call; never NULL. */
SM90_GEMM_BF16_PINGPONG_API const char *sm90_gemm_bf16_pingpong_error_text(void);

/* The cudaError_t of that call, 0 if CUDA reported none. The library has its own CUDA runtime: cudaGetLastError() of the
 * application does not return its errors. */
SM90_GEMM_BF16_PINGPONG_API int sm90_gemm_bf16_pingpong_cuda_error(void);

/* The version of mmagen that made the library, "0.1.0". */
SM90_GEMM_BF16_PINGPONG_API const char *sm90_gemm_bf16_pingpong_version(void);

/* What the library computes, as JSON: name, kernel, element types, contiguous modes, architectures. */
SM90_GEMM_BF16_PINGPONG_API const char *sm90_gemm_bf16_pingpong_description(void);

#ifdef __cplusplus
}
#endif

#endif
