// Register-only loop of SM61_DP4A.
#include "peak.h"

#include "sm61_gemm_s8/config.cuh"
#include "mmagen/atom_peak.cuh"

sm61_gemm_s8_status sm61_gemm_s8_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm61_gemm_s8::Config::MmaOp;
  return static_cast<sm61_gemm_s8_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
