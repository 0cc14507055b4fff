/* The pace of SM61_DP4A with nothing else to wait for: what bench divides by. */
#pragma once

#include "sm61_gemm_s8/sm61_gemm_s8.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that multiplies what is already on the chip, `iterations` times; *flop: the operations it does. */
sm61_gemm_s8_status sm61_gemm_s8_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
