// SM90_64x256x32_S32S8S8_SS_TN on operands that stay in shared memory.
#include "peak.h"

#include "sm90_gemm_s8/large.cuh"
#include "mmagen/sm90_peak.cuh"

sm90_gemm_s8_status sm90_gemm_s8_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  return static_cast<sm90_gemm_s8_status>(mmagen::peak::launch<sm90_gemm_s8::large::Config>(iterations, flop, stream));
}
