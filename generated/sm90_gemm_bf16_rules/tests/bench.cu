// SPDX-License-Identifier: MIT-0
// Times sm90_gemm_bf16_rules, the peak rate of its tensor-core instruction and, if built in, cuBLASLt.
#include "mmagen/bench_main.cuh"
#include "peak.h"
#include "subject.cuh"

struct BenchSubject : Subject {
  static constexpr char const* kPeakOperands = "shared-memory";  // of the instruction alone
  static int peak_launch(int iterations, double* flop, cudaStream_t stream) {
    return sm90_gemm_bf16_rules_peak_launch(iterations, flop, stream);
  }
};

int main(int argc, char** argv) { return mmagen::test::bench_main<BenchSubject>(argc, argv); }
