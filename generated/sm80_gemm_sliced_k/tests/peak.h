/* The pace of SM80_16x8x16_F32F16F16F32_TN with nothing else to wait for: what bench divides by. */
#pragma once

#include "sm80_gemm_sliced_k/sm80_gemm_sliced_k.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that multiplies what is already on the chip, `iterations` times; *flop: the operations it does. */
sm80_gemm_sliced_k_status sm80_gemm_sliced_k_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
