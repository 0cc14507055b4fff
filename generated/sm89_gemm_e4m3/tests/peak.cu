// Register-only loop of SM89_16x8x32_F32E4M3E4M3F32_TN.
#include "peak.h"

#include "sm89_gemm_e4m3/config.cuh"
#include "mmagen/atom_peak.cuh"

sm89_gemm_e4m3_status sm89_gemm_e4m3_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm89_gemm_e4m3::Config::MmaOp;
  return static_cast<sm89_gemm_e4m3_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
