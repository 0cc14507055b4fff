// SM90_64x96x16_F32F16F16_SS on operands that stay in shared memory.
#include "peak.h"

#include "sm90_gemm_warpgroup4/config.cuh"
#include "mmagen/sm90_peak.cuh"

sm90_gemm_warpgroup4_status sm90_gemm_warpgroup4_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  return static_cast<sm90_gemm_warpgroup4_status>(mmagen::peak::launch<sm90_gemm_warpgroup4::Config>(iterations, flop, stream));
}
