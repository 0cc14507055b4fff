// sm90_gemm_bf16_pingpong: the kernel for matrices that TMA cannot address.
#include "sm90_gemm_bf16_pingpong/config.cuh"
#include "mmagen/sm90_unaligned.cuh"

namespace sm90_gemm_bf16_pingpong {

mmagen::Status run_unaligned(mmagen::GemmArguments<Config> const& args, cudaStream_t stream) {
  return mmagen::run_sm90_unaligned<Config>(args, stream);
}

}  // namespace sm90_gemm_bf16_pingpong
