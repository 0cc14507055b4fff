// Register-only loop of SM80_16x8x16_F32F16F16F32_TN.
#include "peak.h"

#include "sm80_gemm_sliced_k/config.cuh"
#include "mmagen/atom_peak.cuh"

sm80_gemm_sliced_k_status sm80_gemm_sliced_k_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm80_gemm_sliced_k::Config::MmaOp;
  return static_cast<sm80_gemm_sliced_k_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
