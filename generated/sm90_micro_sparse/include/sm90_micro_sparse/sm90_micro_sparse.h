/* sm90_micro_sparse: one sparse 64x32x32 wgmma, bf16 x bf16 + f32. C99, no CUDA or CuTe header needed.
 *
 * D = A * B + C for matrices of one size, each row by row without gaps and 16-byte aligned:
 *   a: 64 x 16: bf16; the 2 nonzeros of each 4 neighbours along K
 *   b: 32 x 32: bf16
 *   c and d: 64 x 32: f32
 *   e: 64 x 4: metadata of A, one byte per 8 logical elements
 * B is the transpose of what a textbook calls B: its rows are columns of the product.
 * A byte of metadata has four bits for each group of neighbours along K, the first group in the lower ones: the index of the first nonzero, then of the second, two bits each. */
#ifndef SM90_MICRO_SPARSE_H
#define SM90_MICRO_SPARSE_H

#include <stdint.h>

#if defined(_WIN32)
#define SM90_MICRO_SPARSE_API
#else
#define SM90_MICRO_SPARSE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* cudaStream_t and CUstream point to it */

typedef enum sm90_micro_sparse_status {
  SM90_MICRO_SPARSE_SUCCESS = 0,
  SM90_MICRO_SPARSE_INVALID_ARGUMENT = 1, /* a null pointer, or one that is not 16-byte aligned */
  SM90_MICRO_SPARSE_NOT_SUPPORTED = 2,    /* the current device cannot run this kernel */
  SM90_MICRO_SPARSE_CUDA_ERROR = 3        /* the launch failed: cudaGetLastError() says why */
} sm90_micro_sparse_status;

/* Device memory of the current device. d may be c. */
typedef struct sm90_micro_sparse_args {
  const void *a;
  const void *b;
  const void *c;
  const void *e;
  void *d;
} sm90_micro_sparse_args;

/* What the kernel takes: threads of a CTA, registers and bytes of local memory of a thread, bytes of shared memory of a
 * CTA, and how many CTAs fit on one multiprocessor of the current device. */
typedef struct sm90_micro_sparse_info {
  int32_t threads, registers, local_bytes, smem_bytes, ctas_per_sm;
} sm90_micro_sparse_info;

/* Enqueues the multiply on a stream (NULL: the default stream) and returns without waiting. Thread-safe. */
SM90_MICRO_SPARSE_API sm90_micro_sparse_status sm90_micro_sparse_run(const sm90_micro_sparse_args *args, struct CUstream_st *stream);

SM90_MICRO_SPARSE_API sm90_micro_sparse_status sm90_micro_sparse_query(sm90_micro_sparse_info *info);

/* One sentence in English; never NULL. */
SM90_MICRO_SPARSE_API const char *sm90_micro_sparse_status_text(sm90_micro_sparse_status status);

#ifdef __cplusplus
}
#endif

#endif
