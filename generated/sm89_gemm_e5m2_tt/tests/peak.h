/* The pace of SM89_16x8x32_F32E5M2E4M3F32_TN with nothing else to wait for: what bench divides by. */
#pragma once

#include "sm89_gemm_e5m2_tt/sm89_gemm_e5m2_tt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that multiplies what is already on the chip, `iterations` times; *flop: the operations it does. */
sm89_gemm_e5m2_tt_status sm89_gemm_e5m2_tt_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
