// SPDX-License-Identifier: MIT-0
/* The peak rate of SM90_64x256x16_F32BF16BF16_SS: what bench divides by. */
#pragma once

#include "sm90_gemm_bf16_pingpong/sm90_gemm_bf16_pingpong.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that repeats the instruction `iterations` times on operands that are already on the chip; *flop: its operations. */
sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
