// Register-only loop of SM80_16x8x16_F32BF16BF16F32_TN.
#include "peak.h"

#include "sm80_gemm_bf16_tt/config.cuh"
#include "mmagen/atom_peak.cuh"

sm80_gemm_bf16_tt_status sm80_gemm_bf16_tt_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm80_gemm_bf16_tt::Config::MmaOp;
  return static_cast<sm80_gemm_bf16_tt_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
