// SPDX-License-Identifier: MIT-0
// Loop of SM90_64x256x16_F32BF16BF16_SS on operands in shared memory.
#include "peak.h"

#include "sm90_gemm_bf16_rules/large.cuh"
#include "mmagen/sm90_peak.cuh"

sm90_gemm_bf16_rules_status sm90_gemm_bf16_rules_peak_launch(int iterations, double* flop, CUstream_st* stream) {
  return static_cast<sm90_gemm_bf16_rules_status>(mmagen::peak::launch<sm90_gemm_bf16_rules::large::Config>(iterations, flop, stream));
}
