/* sm80_micro_s4: one 16x8x32 mma, s4 x s4 + s32. C99, no CUDA or CuTe header needed.
 *
 * D = A * B + C for matrices of one size, each row by row without gaps and 16-byte aligned:
 *   a: 16 x 32: s4, 2 in a byte, the first in the lowest bits
 *   b: 8 x 32: s4, 2 in a byte, the first in the lowest bits
 *   c and d: 16 x 8: s32
 * B is the transpose of what a textbook calls B: its rows are columns of the product. */
#ifndef SM80_MICRO_S4_H
#define SM80_MICRO_S4_H

#include <stdint.h>

#if defined(_WIN32)
#define SM80_MICRO_S4_API
#else
#define SM80_MICRO_S4_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum sm80_micro_s4_status {
  SM80_MICRO_S4_SUCCESS = 0,
  SM80_MICRO_S4_INVALID_ARGUMENT = 1, /* a null pointer, or one that is not 16-byte aligned */
  SM80_MICRO_S4_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  SM80_MICRO_S4_CUDA_ERROR = 3        /* the launch failed: cudaGetLastError() says why */
} sm80_micro_s4_status;

/* Device memory of the current device. d may be c. */
typedef struct sm80_micro_s4_args {
  const void *a;
  const void *b;
  const void *c;
  void *d;
} sm80_micro_s4_args;

/* What the kernel takes: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and how many CTAs fit on one multiprocessor of the current device. */
typedef struct sm80_micro_s4_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} sm80_micro_s4_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. Thread-safe. */
SM80_MICRO_S4_API sm80_micro_s4_status sm80_micro_s4_run(const sm80_micro_s4_args *args, struct CUstream_st *stream);

SM80_MICRO_S4_API sm80_micro_s4_status sm80_micro_s4_query(sm80_micro_s4_info *info);

/* One sentence in English; never NULL. */
SM80_MICRO_S4_API const char *sm80_micro_s4_status_text(sm80_micro_s4_status status);

#ifdef __cplusplus
}
#endif

#endif
