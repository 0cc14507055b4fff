// SPDX-License-Identifier: MIT-0
// Loop of SM80_16x8x16_F32F16F16F32_TN on registers.
#include "peak.h"

#include "sm80_gemm_classic/config.cuh"
#include "mmagen/atom_peak.cuh"

sm80_gemm_classic_status sm80_gemm_classic_peak_launch(int iterations, double* flop, CUstream_st* stream) {
  using Op = sm80_gemm_classic::Config::MmaOp;
  return static_cast<sm80_gemm_classic_status>(mmagen::peak::launch<Op>(iterations, flop, stream));
}
