/* ownership_volta: who owns what in a TiledMMA of SM70_8x8x4_F32F16F16F32_NT, tile 16x32x4. C99, no CUDA or CuTe header needed. */
#ifndef OWNERSHIP_VOLTA_H
#define OWNERSHIP_VOLTA_H

#include <stdint.h>

#if defined(_WIN32)
#define OWNERSHIP_VOLTA_API
#else
#define OWNERSHIP_VOLTA_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum ownership_volta_status {
  OWNERSHIP_VOLTA_SUCCESS = 0,
  OWNERSHIP_VOLTA_INVALID_ARGUMENT = 1, /* null pointer */
  OWNERSHIP_VOLTA_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  OWNERSHIP_VOLTA_CUDA_ERROR = 3        /* the launch failed: cudaGetLastError() says why */
} ownership_volta_status;

/* Threads of the TiledMMA and the extents of the tile that it stamps. */
enum { OWNERSHIP_VOLTA_THREADS = 32, OWNERSHIP_VOLTA_M = 16, OWNERSHIP_VOLTA_N = 32, OWNERSHIP_VOLTA_K = 4 };

/* Every thread stamps the elements that it owns with 1 + the number of the value in its fragment. a is (threads, M, K),
 * b (threads, N, K) and c (threads, M, N), row by row, in device memory that the caller has set to zero. */
OWNERSHIP_VOLTA_API ownership_volta_status ownership_volta_stamp(int32_t *a, int32_t *b, int32_t *c, struct CUstream_st *stream);

/* One sentence in English; never NULL. */
OWNERSHIP_VOLTA_API const char *ownership_volta_status_text(ownership_volta_status status);

#ifdef __cplusplus
}
#endif

#endif
