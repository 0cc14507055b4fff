// SPDX-License-Identifier: MIT-0
/* hello_ownership: ownership of A, B and C in a TiledMMA of SM80_16x8x16_F32F16F16F32_TN, tile 16x8x16. C99, no CUDA or CuTe header needed. */
#ifndef HELLO_OWNERSHIP_H
#define HELLO_OWNERSHIP_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define HELLO_OWNERSHIP_API
#else
#define HELLO_OWNERSHIP_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

/* What a call returns. The numbers are the same for all libraries made by mmagen. */
typedef enum hello_ownership_status {
  HELLO_OWNERSHIP_SUCCESS = 0,
  /* about the device; hello_ownership_cuda_error() returns CUDA's own code, if there is one */
  HELLO_OWNERSHIP_CUDA_ERROR = 1,   /* the launch was refused, or an earlier one has failed */
  HELLO_OWNERSHIP_NO_DRIVER = 2,    /* this machine has no CUDA driver */
  HELLO_OWNERSHIP_OLD_DRIVER = 3,   /* the driver is older than the CUDA that the library was built with */
  HELLO_OWNERSHIP_NO_DEVICE = 4,    /* the driver shows no device */
  HELLO_OWNERSHIP_WRONG_DEVICE = 5, /* the library has no code for the current device's architecture */
  HELLO_OWNERSHIP_SMALL_DEVICE = 6, /* too little shared memory for a CTA, or no SMs for a cluster */
  /* about the arguments */
  HELLO_OWNERSHIP_NULL_ARGS = 16,      /* no struct */
  HELLO_OWNERSHIP_STRUCT_SIZE = 17,    /* struct_size is less than the size of the struct here, or members beyond it are not zero */
  HELLO_OWNERSHIP_FIXED_SHAPE = 18,    /*  */
  HELLO_OWNERSHIP_TOO_MANY_TILES = 19, /* m, n and batch make more than 2^31 - 16385 output tiles, or more than 2^31 - 1 CTAs */
  HELLO_OWNERSHIP_WRONG_STREAM = 20,   /* the stream belongs to another device than the current one */
  HELLO_OWNERSHIP_FOREIGN_MEMORY = 21, /* memory that the current device cannot access; only can_run returns this */
  HELLO_OWNERSHIP_NEGATIVE_M = 32,
  HELLO_OWNERSHIP_NEGATIVE_N = 33,
  HELLO_OWNERSHIP_NEGATIVE_K = 34,
  HELLO_OWNERSHIP_NEGATIVE_BATCH = 35,
  HELLO_OWNERSHIP_TOO_LARGE_M = 40, /* above 2^31 - 16385 */
  HELLO_OWNERSHIP_TOO_LARGE_N = 41,
  HELLO_OWNERSHIP_TOO_LARGE_K = 42,
  HELLO_OWNERSHIP_NULL_A = 48,
  HELLO_OWNERSHIP_NULL_B = 49,
  HELLO_OWNERSHIP_NULL_C = 50, /* although beta is not 0, so that C is read */
  HELLO_OWNERSHIP_NULL_D = 51,
  HELLO_OWNERSHIP_NULL_METADATA_A = 52,
  HELLO_OWNERSHIP_NULL_SCALE_A = 53,
  HELLO_OWNERSHIP_NULL_SCALE_B = 54,
  HELLO_OWNERSHIP_MISALIGNED_A = 64, /* not aligned to an element */
  HELLO_OWNERSHIP_MISALIGNED_B = 65,
  HELLO_OWNERSHIP_MISALIGNED_C = 66,
  HELLO_OWNERSHIP_MISALIGNED_D = 67,
  HELLO_OWNERSHIP_MISALIGNED_METADATA_A = 68,
  HELLO_OWNERSHIP_MISALIGNED_SCALE_A = 69,
  HELLO_OWNERSHIP_MISALIGNED_SCALE_B = 70,
  HELLO_OWNERSHIP_MISALIGNED_ALPHA = 71,     /* alpha_device */
  HELLO_OWNERSHIP_MISALIGNED_BETA = 72,      /* beta_device */
  HELLO_OWNERSHIP_MISALIGNED_WORKSPACE = 73, /* not aligned to 16 bytes */
  HELLO_OWNERSHIP_SHORT_LDA = 80,            /* less than the extent of A along its contiguous mode */
  HELLO_OWNERSHIP_SHORT_LDB = 81,
  HELLO_OWNERSHIP_SHORT_LDC = 82,
  HELLO_OWNERSHIP_SHORT_LDD = 83,
  HELLO_OWNERSHIP_ALPHA_NOT_INTEGER = 96, /* the scalars of the kernel are 32-bit integers */
  HELLO_OWNERSHIP_BETA_NOT_INTEGER = 97,
  HELLO_OWNERSHIP_SHARED_D = 98, /* batch_stride_d is 0: all matrices would be written to the same D */
  HELLO_OWNERSHIP_NEGATIVE_STRIDE_A = 128, /* batch_stride_a, if there are several matrices */
  HELLO_OWNERSHIP_NEGATIVE_STRIDE_B = 129,
  HELLO_OWNERSHIP_NEGATIVE_STRIDE_C = 130,
  HELLO_OWNERSHIP_NEGATIVE_STRIDE_D = 131,
  HELLO_OWNERSHIP_TOO_LARGE_A = 168, /* with its lda and batch_stride_a, A takes more than 2^63 - 1 bytes */
  HELLO_OWNERSHIP_TOO_LARGE_B = 169,
  HELLO_OWNERSHIP_TOO_LARGE_C = 170,
  HELLO_OWNERSHIP_TOO_LARGE_D = 171
} hello_ownership_status;

/* Threads of the TiledMMA and the extents of the tile that it stamps. */
enum { HELLO_OWNERSHIP_THREADS = 32, HELLO_OWNERSHIP_M = 16, HELLO_OWNERSHIP_N = 8, HELLO_OWNERSHIP_K = 16 };

/* Every thread stamps the elements that it owns with 1 + the number of the value in its fragment. a is (threads, M, K),
 * b (threads, N, K) and c (threads, M, N), row by row, in device memory that the caller has set to zero. */
HELLO_OWNERSHIP_API hello_ownership_status hello_ownership_stamp(int32_t *a, int32_t *b, int32_t *c, struct CUstream_st *stream);

/* One sentence in English for a status; never NULL. */
HELLO_OWNERSHIP_API const char *hello_ownership_status_text(hello_ownership_status status);

/* The same for the last call of this thread that returned a status, with the values concerned, e.g. "lda is 100; a line of A
 * along K has 128 elements". Valid until the thread's next call; never NULL. */
HELLO_OWNERSHIP_API const char *hello_ownership_error_text(void);

/* The cudaError_t of that call, 0 if CUDA reported none. The library has its own CUDA runtime: cudaGetLastError() of the
 * application does not return its errors. */
HELLO_OWNERSHIP_API int hello_ownership_cuda_error(void);

/* The version of mmagen that made the library, "0.1.0". */
HELLO_OWNERSHIP_API const char *hello_ownership_version(void);

/* What the library computes, as JSON: name, kernel, element types, contiguous modes, architectures. */
HELLO_OWNERSHIP_API const char *hello_ownership_description(void);

#ifdef __cplusplus
}
#endif

#endif
