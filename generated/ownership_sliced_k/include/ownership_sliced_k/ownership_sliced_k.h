/* ownership_sliced_k: who owns what in a TiledMMA of SM80_16x8x16_F32F16F16F32_TN, tile 32x32x32. C99, no CUDA or CuTe header needed. */
#ifndef OWNERSHIP_SLICED_K_H
#define OWNERSHIP_SLICED_K_H

#include <stdint.h>

#if defined(_WIN32)
#define OWNERSHIP_SLICED_K_API
#else
#define OWNERSHIP_SLICED_K_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum ownership_sliced_k_status {
  OWNERSHIP_SLICED_K_SUCCESS = 0,
  OWNERSHIP_SLICED_K_INVALID_ARGUMENT = 1, /* null pointer */
  OWNERSHIP_SLICED_K_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  OWNERSHIP_SLICED_K_CUDA_ERROR = 3        /* the launch failed: cudaGetLastError() says why */
} ownership_sliced_k_status;

/* Threads of the TiledMMA and the extents of the tile that it stamps. */
enum { OWNERSHIP_SLICED_K_THREADS = 128, OWNERSHIP_SLICED_K_M = 32, OWNERSHIP_SLICED_K_N = 32, OWNERSHIP_SLICED_K_K = 32 };

/* Every thread stamps the elements that it owns with 1 + the number of the value in its fragment. a is (threads, M, K),
 * b (threads, N, K) and c (threads, M, N), row by row, in device memory that the caller has set to zero. */
OWNERSHIP_SLICED_K_API ownership_sliced_k_status ownership_sliced_k_stamp(int32_t *a, int32_t *b, int32_t *c, struct CUstream_st *stream);

/* One sentence in English; never NULL. */
OWNERSHIP_SLICED_K_API const char *ownership_sliced_k_status_text(ownership_sliced_k_status status);

#ifdef __cplusplus
}
#endif

#endif
