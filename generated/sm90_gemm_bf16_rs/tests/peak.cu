// SM90_64x128x16_F32BF16BF16_RS on operands that stay in shared memory.
#include "peak.h"

#include "sm90_gemm_bf16_rs/config.cuh"
#include "mmagen/sm90_peak.cuh"

sm90_gemm_bf16_rs_status sm90_gemm_bf16_rs_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  return static_cast<sm90_gemm_bf16_rs_status>(mmagen::peak::launch<sm90_gemm_bf16_rs::Config>(iterations, flop, stream));
}
