/* The pace of SM90_64x256x32_S32S8S8_SS_TN with nothing else to wait for: what bench divides by. */
#pragma once

#include "sm90_gemm_s8/sm90_gemm_s8.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that multiplies what is already on the chip, `iterations` times; *flop: the operations it does. */
sm90_gemm_s8_status sm90_gemm_s8_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
