// Register-only loop of SM80_16x8x32_S32S8S8S32_TN.
#include "peak.h"

#include "sm80_gemm_s8_nt_out8/config.cuh"
#include "mmagen/atom_peak.cuh"

sm80_gemm_s8_nt_out8_status sm80_gemm_s8_nt_out8_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm80_gemm_s8_nt_out8::Config::MmaOp;
  return static_cast<sm80_gemm_s8_nt_out8_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
