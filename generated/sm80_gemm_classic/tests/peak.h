// SPDX-License-Identifier: MIT-0
/* The peak rate of SM80_16x8x16_F32F16F16F32_TN: what bench divides by. */
#pragma once

#include "sm80_gemm_classic/sm80_gemm_classic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that repeats the instruction `iterations` times on operands that are already on the chip; *flop: its operations. */
sm80_gemm_classic_status sm80_gemm_classic_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
