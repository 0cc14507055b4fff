// Register-only loop of SM70_8x8x4_F32F16F16F32_NT.
#include "peak.h"

#include "sm70_gemm_f16/config.cuh"
#include "mmagen/atom_peak.cuh"

sm70_gemm_f16_status sm70_gemm_f16_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm70_gemm_f16::Config::MmaOp;
  return static_cast<sm70_gemm_f16_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
