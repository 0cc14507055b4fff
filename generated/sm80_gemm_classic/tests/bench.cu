// SPDX-License-Identifier: MIT-0
// Times sm80_gemm_classic, the peak rate of its tensor-core instruction and, if built in, cuBLASLt.
#include "mmagen/bench_main.cuh"
#include "peak.h"
#include "subject.cuh"

struct BenchSubject : Subject {
  static constexpr char const* kPeakOperands = "register";  // of the instruction alone
  static int peak_launch(int iterations, double* flop, cudaStream_t stream) {
    return sm80_gemm_classic_peak_launch(iterations, flop, stream);
  }
};

int main(int argc, char** argv) { return mmagen::test::bench_main<BenchSubject>(argc, argv); }
