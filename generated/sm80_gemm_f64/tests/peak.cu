// Register-only loop of SM80_8x8x4_F64F64F64F64_TN.
#include "peak.h"

#include "sm80_gemm_f64/config.cuh"
#include "mmagen/atom_peak.cuh"

sm80_gemm_f64_status sm80_gemm_f64_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = sm80_gemm_f64::Config::MmaOp;
  return static_cast<sm80_gemm_f64_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
