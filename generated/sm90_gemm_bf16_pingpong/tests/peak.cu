// SPDX-License-Identifier: MIT-0
// Loop of SM90_64x256x16_F32BF16BF16_SS on operands in shared memory.
#include "peak.h"

#include "sm90_gemm_bf16_pingpong/config.cuh"
#include "mmagen/sm90_peak.cuh"

sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_peak_launch(int iterations, double* flop, CUstream_st* stream) {
  return static_cast<sm90_gemm_bf16_pingpong_status>(mmagen::peak::launch<sm90_gemm_bf16_pingpong::Config>(iterations, flop, stream));
}
