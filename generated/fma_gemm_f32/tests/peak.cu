// Register-only loop of UniversalFMA<float,float,float,float>.
#include "peak.h"

#include "fma_gemm_f32/config.cuh"
#include "mmagen/atom_peak.cuh"

fma_gemm_f32_status fma_gemm_f32_peak_launch(int iterations, double* flop, CUstream_st* stream)
{
  using Op = fma_gemm_f32::Config::MmaOp;
  return static_cast<fma_gemm_f32_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
