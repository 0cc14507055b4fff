/* The pace of SM90_64x256x32_F32E4M3E4M3_SS_TN with nothing else to wait for: what bench divides by. */
#pragma once

#include "sm90_gemm_e4m3/sm90_gemm_e4m3.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that multiplies what is already on the chip, `iterations` times; *flop: the operations it does. */
sm90_gemm_e4m3_status sm90_gemm_e4m3_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
