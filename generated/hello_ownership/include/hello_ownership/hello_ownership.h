/* hello_ownership: ownership of A, B and C in a TiledMMA of SM80_16x8x16_F32F16F16F32_TN, tile 16x8x16. C99, no CUDA or CuTe header needed. */
#ifndef HELLO_OWNERSHIP_H
#define HELLO_OWNERSHIP_H

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

typedef enum hello_ownership_status {
  HELLO_OWNERSHIP_SUCCESS = 0,
  HELLO_OWNERSHIP_INVALID_ARGUMENT = 1, /* null pointer */
  HELLO_OWNERSHIP_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  HELLO_OWNERSHIP_CUDA_ERROR = 3        /* the launch failed: cudaGetLastError() says why */
} hello_ownership_status;

/* Threads of the TiledMMA and the extents of the tile that it stamps. */
enum { HELLO_OWNERSHIP_THREADS = 32, HELLO_OWNERSHIP_M = 16, HELLO_OWNERSHIP_N = 8, HELLO_OWNERSHIP_K = 16 };

/* Every thread stamps the elements that it owns with 1 + the number of the value in its fragment. a is (threads, M, K),
 * b (threads, N, K) and c (threads, M, N), row by row, in device memory that the caller has set to zero. */
HELLO_OWNERSHIP_API hello_ownership_status hello_ownership_stamp(int32_t *a, int32_t *b, int32_t *c, struct CUstream_st *stream);

/* One sentence in English; never NULL. */
HELLO_OWNERSHIP_API const char *hello_ownership_status_text(hello_ownership_status status);

#ifdef __cplusplus
}
#endif

#endif
