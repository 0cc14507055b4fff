/* The pace of SM89_16x8x32_F32E4M3E4M3F32_TN with nothing else to wait for: what bench divides by. */
#pragma once

#include "sm89_gemm_e4m3/sm89_gemm_e4m3.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that multiplies what is already on the chip, `iterations` times; *flop: the operations it does. */
sm89_gemm_e4m3_status sm89_gemm_e4m3_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
