// SM90_64x256x8_F32TF32TF32_SS_TN on operands that stay in shared memory.
#include "peak.h"

#include "sm90_gemm_tf32/large.cuh"
#include "mmagen/sm90_peak.cuh"

sm90_gemm_tf32_status sm90_gemm_tf32_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  return static_cast<sm90_gemm_tf32_status>(mmagen::peak::launch<sm90_gemm_tf32::large::Config>(iterations, flop, stream));
}
