// Register-only loop of SM80_16x8x8_F32TF32TF32F32_TN.
#include "peak.h"

#include "sm80_gemm_tf32/config.cuh"
#include "mmagen/atom_peak.cuh"

sm80_gemm_tf32_status sm80_gemm_tf32_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm80_gemm_tf32::Config::MmaOp;
  return static_cast<sm80_gemm_tf32_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
