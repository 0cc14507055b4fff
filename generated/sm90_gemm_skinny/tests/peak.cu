// SM90_64x32x16_F32BF16BF16_SS on operands that stay in shared memory.
#include "peak.h"

#include "sm90_gemm_skinny/config.cuh"
#include "mmagen/sm90_peak.cuh"

sm90_gemm_skinny_status sm90_gemm_skinny_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  return static_cast<sm90_gemm_skinny_status>(mmagen::peak::launch<sm90_gemm_skinny::Config>(iterations, flop, stream));
}
