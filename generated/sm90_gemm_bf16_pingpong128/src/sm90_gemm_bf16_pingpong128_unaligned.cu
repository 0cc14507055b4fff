// sm90_gemm_bf16_pingpong128: the way for matrices that TMA cannot address, compiled beside the fast one.
#include "sm90_gemm_bf16_pingpong128/config.cuh"
#include "mmagen/sm90_unaligned.cuh"

namespace sm90_gemm_bf16_pingpong128 {

mmagen::Status run_unaligned(mmagen::GemmArguments<Config> const& args, cudaStream_t stream)
{
  return mmagen::run_sm90_unaligned<Config>(args, stream);
}

}  // namespace sm90_gemm_bf16_pingpong128
