// SPDX-License-Identifier: MIT-0
/* hello_micro: one 32x32x32 tile, f16 x f16 + f32 -> f32, TN: A K contiguous, B K contiguous. C99, no CUDA or CuTe header needed.
 *
 * A is (M,K) with K contiguous, B is (N,K) with K contiguous, C and D are (M,N) with N contiguous.
 * Element types: A f16, B f16, C and D f32; sums are kept in f32. */
#ifndef HELLO_MICRO_H
#define HELLO_MICRO_H

#include <stddef.h>
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

/* What a call returns. The numbers are the same for all libraries made by mmagen. */
typedef enum hello_micro_status {
  HELLO_MICRO_SUCCESS = 0,
  /* about the device; hello_micro_cuda_error() returns CUDA's own code, if there is one */
  HELLO_MICRO_CUDA_ERROR = 1,   /* the launch was refused, or an earlier one has failed */
  HELLO_MICRO_NO_DRIVER = 2,    /* this machine has no CUDA driver */
  HELLO_MICRO_OLD_DRIVER = 3,   /* the driver is older than the CUDA that the library was built with */
  HELLO_MICRO_NO_DEVICE = 4,    /* the driver shows no device */
  HELLO_MICRO_WRONG_DEVICE = 5, /* the library has no code for the current device's architecture */
  HELLO_MICRO_SMALL_DEVICE = 6, /* too little shared memory for a CTA, or no SMs for a cluster */
  /* about the arguments */
  HELLO_MICRO_NULL_ARGS = 16,      /* no struct */
  HELLO_MICRO_STRUCT_SIZE = 17,    /* struct_size is less than the size of the struct here, or members beyond it are not zero */
  HELLO_MICRO_FIXED_SHAPE = 18,    /* this kernel computes one tile and nothing else */
  HELLO_MICRO_TOO_MANY_TILES = 19, /* m, n and batch make more than 2^31 - 16385 output tiles, or more than 2^31 - 1 CTAs */
  HELLO_MICRO_WRONG_STREAM = 20,   /* the stream belongs to another device than the current one */
  HELLO_MICRO_FOREIGN_MEMORY = 21, /* memory that the current device cannot access; only can_run returns this */
  HELLO_MICRO_NEGATIVE_M = 32,
  HELLO_MICRO_NEGATIVE_N = 33,
  HELLO_MICRO_NEGATIVE_K = 34,
  HELLO_MICRO_NEGATIVE_BATCH = 35,
  HELLO_MICRO_TOO_LARGE_M = 40, /* above 2^31 - 16385 */
  HELLO_MICRO_TOO_LARGE_N = 41,
  HELLO_MICRO_TOO_LARGE_K = 42,
  HELLO_MICRO_NULL_A = 48,
  HELLO_MICRO_NULL_B = 49,
  HELLO_MICRO_NULL_C = 50, /* although beta is not 0, so that C is read */
  HELLO_MICRO_NULL_D = 51,
  HELLO_MICRO_NULL_METADATA_A = 52,
  HELLO_MICRO_NULL_SCALE_A = 53,
  HELLO_MICRO_NULL_SCALE_B = 54,
  HELLO_MICRO_MISALIGNED_A = 64, /* not aligned to an element */
  HELLO_MICRO_MISALIGNED_B = 65,
  HELLO_MICRO_MISALIGNED_C = 66,
  HELLO_MICRO_MISALIGNED_D = 67,
  HELLO_MICRO_MISALIGNED_METADATA_A = 68,
  HELLO_MICRO_MISALIGNED_SCALE_A = 69,
  HELLO_MICRO_MISALIGNED_SCALE_B = 70,
  HELLO_MICRO_MISALIGNED_ALPHA = 71,     /* alpha_device */
  HELLO_MICRO_MISALIGNED_BETA = 72,      /* beta_device */
  HELLO_MICRO_MISALIGNED_WORKSPACE = 73, /* not aligned to 16 bytes */
  HELLO_MICRO_SHORT_LDA = 80,            /* less than the extent of A along its contiguous mode */
  HELLO_MICRO_SHORT_LDB = 81,
  HELLO_MICRO_SHORT_LDC = 82,
  HELLO_MICRO_SHORT_LDD = 83,
  HELLO_MICRO_ALPHA_NOT_INTEGER = 96, /* the scalars of the kernel are 32-bit integers */
  HELLO_MICRO_BETA_NOT_INTEGER = 97,
  HELLO_MICRO_SHARED_D = 98, /* batch_stride_d is 0: all matrices would be written to the same D */
  HELLO_MICRO_NEGATIVE_STRIDE_A = 128, /* batch_stride_a, if there are several matrices */
  HELLO_MICRO_NEGATIVE_STRIDE_B = 129,
  HELLO_MICRO_NEGATIVE_STRIDE_C = 130,
  HELLO_MICRO_NEGATIVE_STRIDE_D = 131,
  HELLO_MICRO_TOO_LARGE_A = 168, /* with its lda and batch_stride_a, A takes more than 2^63 - 1 bytes */
  HELLO_MICRO_TOO_LARGE_B = 169,
  HELLO_MICRO_TOO_LARGE_C = 170,
  HELLO_MICRO_TOO_LARGE_D = 171
} hello_micro_status;

typedef float hello_micro_scalar;

/* D = A * B for M, N, K = 32, 32, 32, batch = 1, alpha = 1, beta = 0.
 * Leading dimensions are the distance between rows (or columns) of the contiguous mode, strides the distance between
 * the matrices of a batch; both in elements. A, B and C may have a stride of 0, one matrix for the whole batch.
 */
/* The arguments of a call, the same for all libraries made by mmagen: the layout does not depend on the kernel. Later versions
 * add members at the end. A library refuses a struct that is shorter than the one it knows, and a longer one unless all
 * members that it does not know are zero. Begin with HELLO_MICRO_ARGS_INIT, or with zeros and struct_size. */
typedef struct hello_micro_args {
  uint64_t struct_size;   /* sizeof(struct hello_micro_args) */
  int64_t m, n, k, batch; /* batch 0 means 1 */
  const void *a;
  int64_t lda, batch_stride_a;
  const void *b;
  int64_t ldb, batch_stride_b;
  const void *c; /* read only if beta is not 0; may be equal to d */
  int64_t ldc, batch_stride_c;
  void *d;
  int64_t ldd, batch_stride_d;
  double alpha, beta;       /* converted to hello_micro_scalar */
  const void *alpha_device; /* NULL, or a hello_micro_scalar in device memory that the kernel reads instead of alpha */
  const void *beta_device;  /* the same for beta; c must be given then */
  void *workspace;          /* NULL, or device memory: see hello_micro_workspace_bytes */
  int64_t workspace_bytes;
  const void *metadata_a; /* for sparse operations, else not read */
  const void *scale_a;    /* for block-scaled operations, else not read */
  const void *scale_b;
} hello_micro_args;

/* alpha 1, beta 0, one matrix. */
#define HELLO_MICRO_ARGS_INIT \
  {sizeof(struct hello_micro_args), 0, 0, 0, 1, NULL, 0, 0, NULL, 0, 0, NULL, 0, 0, NULL, 0, 0, \
   1.0, 0.0, NULL, NULL, NULL, 0, NULL, NULL, NULL}

/* Resources of the kernel: threads per CTA, registers and bytes of local memory per thread, bytes of shared memory per CTA,
 * and CTAs that run at once on a multiprocessor of the current device. */
typedef struct hello_micro_info {
  uint64_t struct_size; /* sizeof(struct hello_micro_info), set by the caller */
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} hello_micro_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. All pointers are device
 * memory of the current device. Thread-safe. */
HELLO_MICRO_API hello_micro_status hello_micro_run(const hello_micro_args *args, struct CUstream_st *stream);

/* What hello_micro_run would return on the current device, without launching anything. If that is success, it also asks the driver
 * where the memory of each pointer is, which hello_micro_run does not do: HELLO_MICRO_FOREIGN_MEMORY. */
HELLO_MICRO_API hello_micro_status hello_micro_can_run(const hello_micro_args *args);

/* Bytes of workspace that a call with these arguments can use on the current device, 0 for none. */
HELLO_MICRO_API hello_micro_status hello_micro_workspace_bytes(const hello_micro_args *args, int64_t *bytes);

HELLO_MICRO_API hello_micro_status hello_micro_query(hello_micro_info *info);

/* The name of the kernel that a call with these arguments runs: always hello_micro. Never NULL. */
HELLO_MICRO_API const char *hello_micro_config_name(const hello_micro_args *args);

/* One sentence in English for a status; never NULL. */
HELLO_MICRO_API const char *hello_micro_status_text(hello_micro_status status);

/* The same for the last call of this thread that returned a status, with the values concerned, e.g. "lda is 100; a line of A
 * along K has 128 elements". Valid until the thread's next call; never NULL. */
HELLO_MICRO_API const char *hello_micro_error_text(void);

/* The cudaError_t of that call, 0 if CUDA reported none. The library has its own CUDA runtime: cudaGetLastError() of the
 * application does not return its errors. */
HELLO_MICRO_API int hello_micro_cuda_error(void);

/* The version of mmagen that made the library, "0.1.0". */
HELLO_MICRO_API const char *hello_micro_version(void);

/* What the library computes, as JSON: name, kernel, element types, contiguous modes, architectures. */
HELLO_MICRO_API const char *hello_micro_description(void);

#ifdef __cplusplus
}
#endif

#endif
