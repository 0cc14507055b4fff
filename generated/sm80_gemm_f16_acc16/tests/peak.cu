// Register-only loop of SM80_16x8x16_F16F16F16F16_TN.
#include "peak.h"

#include "sm80_gemm_f16_acc16/config.cuh"
#include "mmagen/atom_peak.cuh"

sm80_gemm_f16_acc16_status sm80_gemm_f16_acc16_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm80_gemm_f16_acc16::Config::MmaOp;
  return static_cast<sm80_gemm_f16_acc16_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
