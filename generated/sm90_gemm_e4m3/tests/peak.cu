// SM90_64x256x32_F32E4M3E4M3_SS_TN on operands that stay in shared memory.
#include "peak.h"

#include "sm90_gemm_e4m3/large.cuh"
#include "mmagen/sm90_peak.cuh"

sm90_gemm_e4m3_status sm90_gemm_e4m3_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  return static_cast<sm90_gemm_e4m3_status>(mmagen::peak::launch<sm90_gemm_e4m3::large::Config>(iterations, flop, stream));
}
