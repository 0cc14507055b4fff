// sm90_gemm_bf16_f32, config mid: instantiates its kernel.
#include "sm90_gemm_bf16_f32/sm90_gemm_bf16_f32.h"

#include "sm90_gemm_bf16_f32/mid.cuh"
#include "mmagen/sm90_launch.cuh"

namespace sm90_gemm_bf16_f32 {
// The way for matrices that TMA cannot address, in a translation unit of its own.
mmagen::Status run_unaligned(mmagen::GemmArguments<mid::Config> const& args, cudaStream_t stream);
}

namespace sm90_gemm_bf16_f32::mid {

mmagen::Status run(sm90_gemm_bf16_f32_args const& args, cudaStream_t stream)
{
  return mmagen::run_sm90<Config>(args, stream, &run_unaligned);
}

mmagen::Status query(sm90_gemm_bf16_f32_info& info) { return mmagen::query_sm90<Config>(info); }

}  // namespace sm90_gemm_bf16_f32::mid
