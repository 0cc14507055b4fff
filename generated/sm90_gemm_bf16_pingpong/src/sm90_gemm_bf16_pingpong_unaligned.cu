// SPDX-License-Identifier: MIT-0
// sm90_gemm_bf16_pingpong: the kernel for operands that TMA cannot address, and copies of them.
#include "sm90_gemm_bf16_pingpong/sm90_gemm_bf16_pingpong.h"

#include "mmagen/without_iostream.cuh"

#include "sm90_gemm_bf16_pingpong/config.cuh"
#include "mmagen/operand_copies.cuh"
#include "mmagen/sm90_swapped.cuh"
#include "mmagen/sm90_unaligned.cuh"

namespace sm90_gemm_bf16_pingpong {

mmagen::Status run_unaligned(mmagen::CallArguments<Config> const& args, cudaStream_t stream, mmagen::Launch launch) {
  return mmagen::run_sm90_unaligned<Config>(mmagen::kernel_arguments<Config>(args), stream, launch);
}

mmagen::Status copy_operands(sm90_gemm_bf16_pingpong_args& args, cudaStream_t stream) {
  return mmagen::copy_operands<mmagen::CallOperands<Config>>(args, stream);
}

int64_t copied_bytes(sm90_gemm_bf16_pingpong_args const& args) { return mmagen::copied_bytes<mmagen::CallOperands<Config>>(args); }

}  // namespace sm90_gemm_bf16_pingpong
