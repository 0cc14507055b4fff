// SPDX-License-Identifier: MIT-0
// sm90_gemm_bf16_rules, config one_wave: instantiates its kernel.
#include "sm90_gemm_bf16_rules/sm90_gemm_bf16_rules.h"

#include "mmagen/without_iostream.cuh"

#include "sm90_gemm_bf16_rules/one_wave.cuh"
#include "mmagen/sm90_launch.cuh"

namespace sm90_gemm_bf16_rules {
// Defined in sm90_gemm_bf16_rules_unaligned.cu: for operands that TMA cannot address.
mmagen::Status run_unaligned(mmagen::CallArguments<one_wave::Config> const& args, cudaStream_t stream, mmagen::Launch launch);
}

namespace sm90_gemm_bf16_rules::one_wave {

mmagen::Status run(sm90_gemm_bf16_rules_args const& args, cudaStream_t stream) {
  return mmagen::run_sm90<Config>(args, stream, &run_unaligned);
}

mmagen::Status can_run(sm90_gemm_bf16_rules_args const& args) {
  return mmagen::run_sm90<Config>(args, nullptr, &run_unaligned, mmagen::Launch::kNo);
}

mmagen::Status query(sm90_gemm_bf16_rules_info& info) { return mmagen::query_sm90<Config>(info); }

}  // namespace sm90_gemm_bf16_rules::one_wave
