// SPDX-License-Identifier: MIT-0
// sm90_gemm_bf16_pingpong: the kernel for operands that TMA cannot address.
#include "mmagen/without_iostream.cuh"

#include "sm90_gemm_bf16_pingpong/config.cuh"
#include "mmagen/sm90_swapped.cuh"
#include "mmagen/sm90_unaligned.cuh"

namespace sm90_gemm_bf16_pingpong {

mmagen::Status run_unaligned(mmagen::CallArguments<Config> const& args, cudaStream_t stream, mmagen::Launch launch) {
  return mmagen::run_sm90_unaligned<Config>(mmagen::kernel_arguments<Config>(args), stream, launch);
}

}  // namespace sm90_gemm_bf16_pingpong
