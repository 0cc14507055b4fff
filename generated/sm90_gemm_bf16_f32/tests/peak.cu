// SM90_64x256x16_F32BF16BF16_SS on operands that stay in shared memory.
#include "peak.h"

#include "sm90_gemm_bf16_f32/large.cuh"
#include "mmagen/sm90_peak.cuh"

sm90_gemm_bf16_f32_status sm90_gemm_bf16_f32_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  return static_cast<sm90_gemm_bf16_f32_status>(mmagen::peak::launch<sm90_gemm_bf16_f32::large::Config>(iterations, flop, stream));
}
