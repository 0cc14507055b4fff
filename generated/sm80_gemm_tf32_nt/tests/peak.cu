// Register-only loop of SM80_16x8x8_F32TF32TF32F32_TN.
#include "peak.h"

#include "sm80_gemm_tf32_nt/config.cuh"
#include "mmagen/atom_peak.cuh"

sm80_gemm_tf32_nt_status sm80_gemm_tf32_nt_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm80_gemm_tf32_nt::Config::MmaOp;
  return static_cast<sm80_gemm_tf32_nt_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
