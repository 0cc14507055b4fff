// SM90_64x128x32_F32E4M3E4M3_SS_TN on operands that stay in shared memory.
#include "peak.h"

#include "sm90_gemm_e4m3_precise/config.cuh"
#include "mmagen/sm90_peak.cuh"

sm90_gemm_e4m3_precise_status sm90_gemm_e4m3_precise_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  return static_cast<sm90_gemm_e4m3_precise_status>(mmagen::peak::launch<sm90_gemm_e4m3_precise::Config>(iterations, flop, stream));
}
