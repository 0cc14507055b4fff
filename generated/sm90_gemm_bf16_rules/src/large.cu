// SPDX-License-Identifier: MIT-0
// sm90_gemm_bf16_rules, config large: instantiates its kernel.
#include "sm90_gemm_bf16_rules/sm90_gemm_bf16_rules.h"

#include "mmagen/without_iostream.cuh"

#include "sm90_gemm_bf16_rules/large.cuh"
#include "mmagen/sm90_launch.cuh"

namespace sm90_gemm_bf16_rules {
// Defined in sm90_gemm_bf16_rules_unaligned.cu: for operands that TMA cannot address.
mmagen::Status run_unaligned(mmagen::CallArguments<large::Config> const& args, cudaStream_t stream, mmagen::Launch launch);
}

namespace sm90_gemm_bf16_rules::large {

mmagen::Status run(sm90_gemm_bf16_rules_args const& args, cudaStream_t stream) {
  return mmagen::run_sm90<Config>(args, stream, &run_unaligned);
}

mmagen::Status can_run(sm90_gemm_bf16_rules_args const& args) {
  return mmagen::run_sm90<Config>(args, nullptr, &run_unaligned, mmagen::Launch::kNo);
}

mmagen::Status query(sm90_gemm_bf16_rules_info& info) { return mmagen::query_sm90<Config>(info); }

mmagen::Status workspace(sm90_gemm_bf16_rules_args const& args, int64_t& bytes) { return mmagen::workspace_sm90<Config>(args, bytes); }

}  // namespace sm90_gemm_bf16_rules::large
