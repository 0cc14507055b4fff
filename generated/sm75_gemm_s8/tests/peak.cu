// Register-only loop of SM75_8x8x16_S32S8S8S32_TN.
#include "peak.h"

#include "sm75_gemm_s8/config.cuh"
#include "mmagen/atom_peak.cuh"

sm75_gemm_s8_status sm75_gemm_s8_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm75_gemm_s8::Config::MmaOp;
  return static_cast<sm75_gemm_s8_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
