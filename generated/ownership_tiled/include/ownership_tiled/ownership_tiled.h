/* ownership_tiled: who owns what in a TiledMMA of SM80_16x8x16_F32F16F16F32_TN, tile 32x32x16. C99, no CUDA or CuTe header needed. */
#ifndef OWNERSHIP_TILED_H
#define OWNERSHIP_TILED_H

#include <stdint.h>

#if defined(_WIN32)
#define OWNERSHIP_TILED_API
#else
#define OWNERSHIP_TILED_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum ownership_tiled_status {
  OWNERSHIP_TILED_SUCCESS = 0,
  OWNERSHIP_TILED_INVALID_ARGUMENT = 1, /* null pointer */
  OWNERSHIP_TILED_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  OWNERSHIP_TILED_CUDA_ERROR = 3        /* the launch failed: cudaGetLastError() says why */
} ownership_tiled_status;

/* Threads of the TiledMMA and the extents of the tile that it stamps. */
enum { OWNERSHIP_TILED_THREADS = 128, OWNERSHIP_TILED_M = 32, OWNERSHIP_TILED_N = 32, OWNERSHIP_TILED_K = 16 };

/* Every thread stamps the elements that it owns with 1 + the number of the value in its fragment. a is (threads, M, K),
 * b (threads, N, K) and c (threads, M, N), row by row, in device memory that the caller has set to zero. */
OWNERSHIP_TILED_API ownership_tiled_status ownership_tiled_stamp(int32_t *a, int32_t *b, int32_t *c, struct CUstream_st *stream);

/* One sentence in English; never NULL. */
OWNERSHIP_TILED_API const char *ownership_tiled_status_text(ownership_tiled_status status);

#ifdef __cplusplus
}
#endif

#endif
