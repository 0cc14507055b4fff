// SPDX-License-Identifier: MIT-0
// sm90_gemm_bf16_rules: the kernel for operands that TMA cannot address, and copies of them.
#include "sm90_gemm_bf16_rules/sm90_gemm_bf16_rules.h"

#include "mmagen/without_iostream.cuh"

#include "sm90_gemm_bf16_rules/large.cuh"
#include "mmagen/operand_copies.cuh"
#include "mmagen/sm90_few_rows.cuh"
#include "mmagen/sm90_swapped.cuh"
#include "mmagen/sm90_unaligned.cuh"

namespace sm90_gemm_bf16_rules {

namespace {

// Is a call with few rows or columns faster on the operands themselves than on copies?
bool without_copies(sm90_gemm_bf16_rules_args const& args) { return mmagen::few_rows_pay<mmagen::CallOperands<large::Config>>(args); }

}  // namespace

// Runs a call whose operands TMA cannot address.
mmagen::Status run_unaligned(mmagen::CallArguments<large::Config> const& args, cudaStream_t stream, mmagen::Launch launch) {
  if (mmagen::takes_few_rows<large::Config>(args.shape())) {
    return mmagen::run_sm90_few_rows<large::Config>(mmagen::kernel_arguments<large::Config>(args), stream, launch);
  }
  return mmagen::run_sm90_unaligned<large::Config>(mmagen::kernel_arguments<large::Config>(args), stream, launch);
}

// Copies operands that TMA cannot address to the workspace, if that saves time, and changes the arguments to the copies.
mmagen::Status copy_operands(sm90_gemm_bf16_rules_args& args, cudaStream_t stream) {
  if (without_copies(args)) { return mmagen::Status::kSuccess; }
  return mmagen::copy_operands<mmagen::CallOperands<large::Config>>(args, stream);
}

int64_t copied_bytes(sm90_gemm_bf16_rules_args const& args) { return without_copies(args) ? 0 : mmagen::copied_bytes<mmagen::CallOperands<large::Config>>(args); }

void take_pitches_of_copies(sm90_gemm_bf16_rules_args& args, bool with_workspace) {
  if (without_copies(args)) { return; }
  mmagen::take_pitches_of_copies<mmagen::CallOperands<large::Config>>(args, with_workspace);
}

}  // namespace sm90_gemm_bf16_rules
