// Register-only loop of SM75_16x8x8_F32F16F16F32_TN.
#include "peak.h"

#include "sm75_gemm_f16/config.cuh"
#include "mmagen/atom_peak.cuh"

sm75_gemm_f16_status sm75_gemm_f16_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm75_gemm_f16::Config::MmaOp;
  return static_cast<sm75_gemm_f16_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
