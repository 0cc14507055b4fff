/* The pace of SM75_16x8x8_F32F16F16F32_TN with nothing else to wait for: what bench divides by. */
#pragma once

#include "sm75_gemm_f16/sm75_gemm_f16.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that multiplies what is already on the chip, `iterations` times; *flop: the operations it does. */
sm75_gemm_f16_status sm75_gemm_f16_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
