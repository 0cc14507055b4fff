// SPDX-License-Identifier: MIT-0
/* sm80_gemm_classic: GEMM, f16 x f16 + f32 -> f16, TN: A K contiguous, B K contiguous, CTA tile 128x128x32. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with K contiguous, B is (N,K) with K contiguous, C and D are (M,N) with N contiguous.
 * Element types: A f16, B f16, C and D f16; sums are kept in f32. */
#ifndef SM80_GEMM_CLASSIC_H
#define SM80_GEMM_CLASSIC_H

#include <stddef.h>
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

/* What a call returns. The numbers are the same for all libraries made by mmagen. */
typedef enum sm80_gemm_classic_status {
  SM80_GEMM_CLASSIC_SUCCESS = 0,
  /* about the device; sm80_gemm_classic_cuda_error() returns CUDA's own code, if there is one */
  SM80_GEMM_CLASSIC_CUDA_ERROR = 1,   /* the launch was refused, or an earlier one has failed */
  SM80_GEMM_CLASSIC_NO_DRIVER = 2,    /* this machine has no CUDA driver */
  SM80_GEMM_CLASSIC_OLD_DRIVER = 3,   /* the driver is older than the CUDA that the library was built with */
  SM80_GEMM_CLASSIC_NO_DEVICE = 4,    /* the driver shows no device */
  SM80_GEMM_CLASSIC_WRONG_DEVICE = 5, /* the library has no code for the current device's architecture */
  SM80_GEMM_CLASSIC_SMALL_DEVICE = 6, /* too little shared memory for a CTA, or no SMs for a cluster */
  /* about the arguments */
  SM80_GEMM_CLASSIC_NULL_ARGS = 16,      /* no struct */
  SM80_GEMM_CLASSIC_STRUCT_SIZE = 17,    /* struct_size is less than the size of the struct here, or members beyond it are not zero */
  SM80_GEMM_CLASSIC_FIXED_SHAPE = 18,    /* never from this kernel */
  SM80_GEMM_CLASSIC_TOO_MANY_TILES = 19, /* m, n and batch make more than 2^31 - 16385 output tiles, or more than 2^31 - 1 CTAs */
  SM80_GEMM_CLASSIC_WRONG_STREAM = 20,   /* the stream belongs to another device than the current one */
  SM80_GEMM_CLASSIC_FOREIGN_MEMORY = 21, /* memory that the current device cannot access; only can_run returns this */
  SM80_GEMM_CLASSIC_NEGATIVE_M = 32,
  SM80_GEMM_CLASSIC_NEGATIVE_N = 33,
  SM80_GEMM_CLASSIC_NEGATIVE_K = 34,
  SM80_GEMM_CLASSIC_NEGATIVE_BATCH = 35,
  SM80_GEMM_CLASSIC_TOO_LARGE_M = 40, /* above 2^31 - 16385 */
  SM80_GEMM_CLASSIC_TOO_LARGE_N = 41,
  SM80_GEMM_CLASSIC_TOO_LARGE_K = 42,
  SM80_GEMM_CLASSIC_NULL_A = 48,
  SM80_GEMM_CLASSIC_NULL_B = 49,
  SM80_GEMM_CLASSIC_NULL_C = 50, /* although beta is not 0, so that C is read */
  SM80_GEMM_CLASSIC_NULL_D = 51,
  SM80_GEMM_CLASSIC_NULL_METADATA_A = 52,
  SM80_GEMM_CLASSIC_NULL_SCALE_A = 53,
  SM80_GEMM_CLASSIC_NULL_SCALE_B = 54,
  SM80_GEMM_CLASSIC_MISALIGNED_A = 64, /* not aligned to an element */
  SM80_GEMM_CLASSIC_MISALIGNED_B = 65,
  SM80_GEMM_CLASSIC_MISALIGNED_C = 66,
  SM80_GEMM_CLASSIC_MISALIGNED_D = 67,
  SM80_GEMM_CLASSIC_MISALIGNED_METADATA_A = 68,
  SM80_GEMM_CLASSIC_MISALIGNED_SCALE_A = 69,
  SM80_GEMM_CLASSIC_MISALIGNED_SCALE_B = 70,
  SM80_GEMM_CLASSIC_MISALIGNED_ALPHA = 71,     /* alpha_device */
  SM80_GEMM_CLASSIC_MISALIGNED_BETA = 72,      /* beta_device */
  SM80_GEMM_CLASSIC_MISALIGNED_WORKSPACE = 73, /* not aligned to 16 bytes */
  SM80_GEMM_CLASSIC_SHORT_LDA = 80,            /* less than the extent of A along its contiguous mode */
  SM80_GEMM_CLASSIC_SHORT_LDB = 81,
  SM80_GEMM_CLASSIC_SHORT_LDC = 82,
  SM80_GEMM_CLASSIC_SHORT_LDD = 83,
  SM80_GEMM_CLASSIC_ALPHA_NOT_INTEGER = 96, /* the scalars of the kernel are 32-bit integers */
  SM80_GEMM_CLASSIC_BETA_NOT_INTEGER = 97,
  SM80_GEMM_CLASSIC_SHARED_D = 98, /* batch_stride_d is 0: all matrices would be written to the same D */
  SM80_GEMM_CLASSIC_NEGATIVE_STRIDE_A = 128, /* batch_stride_a, if there are several matrices */
  SM80_GEMM_CLASSIC_NEGATIVE_STRIDE_B = 129,
  SM80_GEMM_CLASSIC_NEGATIVE_STRIDE_C = 130,
  SM80_GEMM_CLASSIC_NEGATIVE_STRIDE_D = 131,
  SM80_GEMM_CLASSIC_TOO_LARGE_A = 168, /* with its lda and batch_stride_a, A takes more than 2^63 - 1 bytes */
  SM80_GEMM_CLASSIC_TOO_LARGE_B = 169,
  SM80_GEMM_CLASSIC_TOO_LARGE_C = 170,
  SM80_GEMM_CLASSIC_TOO_LARGE_D = 171
} sm80_gemm_classic_status;

typedef float sm80_gemm_classic_scalar;

/* D = alpha * A * B + beta * C for each matrix of the batch; any m, n, k, any alignment.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch.
 */
/* The arguments of a call, the same for all libraries made by mmagen: the layout does not depend on the kernel. Later versions
 * add members at the end. A library refuses a struct that is shorter than the one it knows, and a longer one unless all
 * members that it does not know are zero. Begin with SM80_GEMM_CLASSIC_ARGS_INIT, or with zeros and struct_size. */
typedef struct sm80_gemm_classic_args {
  uint64_t struct_size;   /* sizeof(struct sm80_gemm_classic_args) */
  int64_t m, n, k, batch; /* batch 0 means 1 */
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only if beta is not 0; may be equal to d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  double alpha, beta;       /* converted to sm80_gemm_classic_scalar */
  const void *alpha_device; /* NULL, or a sm80_gemm_classic_scalar in device memory that the kernel reads instead of alpha */
  const void *beta_device;  /* the same for beta; c must be given then */
  void *workspace;          /* NULL, or device memory: see sm80_gemm_classic_workspace_bytes */
  int64_t workspace_bytes;
  const void *metadata_a; /* for sparse operations, else not read */
  const void *scale_a;    /* for block-scaled operations, else not read */
  const void *scale_b;
} sm80_gemm_classic_args;

/* alpha 1, beta 0, one matrix. */
#define SM80_GEMM_CLASSIC_ARGS_INIT \
  {sizeof(struct sm80_gemm_classic_args), 0, 0, 0, 1, NULL, 0, 0, NULL, 0, 0, NULL, 0, 0, NULL, 0, 0, \
   1.0, 0.0, NULL, NULL, NULL, 0, NULL, NULL, NULL}

/* Resources of the kernel: threads per CTA, registers and bytes of local memory per thread, bytes of shared memory per CTA,
 * and CTAs that run at once on a multiprocessor of the current device. */
typedef struct sm80_gemm_classic_info {
  uint64_t struct_size; /* sizeof(struct sm80_gemm_classic_info), set by the caller */
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} sm80_gemm_classic_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
SM80_GEMM_CLASSIC_API sm80_gemm_classic_status sm80_gemm_classic_run(const sm80_gemm_classic_args *args, struct CUstream_st *stream);

/* What sm80_gemm_classic_run would return on the current device, without launching anything. If that is success, it also asks the driver
 * where the memory of each pointer is, which sm80_gemm_classic_run does not do: SM80_GEMM_CLASSIC_FOREIGN_MEMORY. */
SM80_GEMM_CLASSIC_API sm80_gemm_classic_status sm80_gemm_classic_can_run(const sm80_gemm_classic_args *args);

/* Bytes of workspace that a call with these arguments can use on the current device, 0 for none. */
SM80_GEMM_CLASSIC_API sm80_gemm_classic_status sm80_gemm_classic_workspace_bytes(const sm80_gemm_classic_args *args, int64_t *bytes);

SM80_GEMM_CLASSIC_API sm80_gemm_classic_status sm80_gemm_classic_query(sm80_gemm_classic_info *info);

/* The name of the kernel that a call with these arguments runs: always sm80_gemm_classic. Never NULL. */
SM80_GEMM_CLASSIC_API const char *sm80_gemm_classic_config_name(const sm80_gemm_classic_args *args);

/* One sentence in English for a status; never NULL. */
SM80_GEMM_CLASSIC_API const char *sm80_gemm_classic_status_text(sm80_gemm_classic_status status);

/* The same for the last call of this thread that returned a status, with the values concerned, e.g. "lda is 100; a line of A
 * along K has 128 elements". Valid until the thread's next call; never NULL. */
SM80_GEMM_CLASSIC_API const char *sm80_gemm_classic_error_text(void);

/* The cudaError_t of that call, 0 if CUDA reported none. The library has its own CUDA runtime: cudaGetLastError() of the
 * application does not return its errors. */
SM80_GEMM_CLASSIC_API int sm80_gemm_classic_cuda_error(void);

/* The version of mmagen that made the library, "0.1.0". */
SM80_GEMM_CLASSIC_API const char *sm80_gemm_classic_version(void);

/* What the library computes, as JSON: name, kernel, element types, contiguous modes, architectures. */
SM80_GEMM_CLASSIC_API const char *sm80_gemm_classic_description(void);

#ifdef __cplusplus
}
#endif

#endif
