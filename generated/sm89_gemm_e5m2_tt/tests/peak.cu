// Register-only loop of SM89_16x8x32_F32E5M2E4M3F32_TN.
#include "peak.h"

#include "sm89_gemm_e5m2_tt/config.cuh"
#include "mmagen/atom_peak.cuh"

sm89_gemm_e5m2_tt_status sm89_gemm_e5m2_tt_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm89_gemm_e5m2_tt::Config::MmaOp;
  return static_cast<sm89_gemm_e5m2_tt_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
