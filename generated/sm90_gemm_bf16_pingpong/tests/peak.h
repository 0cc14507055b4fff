/* The pace of SM90_64x256x16_F32BF16BF16_SS with nothing else to wait for: what bench divides by. */
#pragma once

#include "sm90_gemm_bf16_pingpong/sm90_gemm_bf16_pingpong.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues a kernel that multiplies what is already on the chip, `iterations` times; *flop: the operations it does. */
sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_peak_launch(int iterations, double *flop, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif
