// SPDX-License-Identifier: MIT-0
// Verifies and times each kernel of sm90_gemm_bf16_rules on many problems, beside cuBLASLt; --help lists the options.
#include "tune_subject.cuh"

int main(int argc, char** argv) { return mmagen::test::tune_main<TuneSubject>(argc, argv); }
