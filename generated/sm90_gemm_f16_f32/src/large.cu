// sm90_gemm_f16_f32, config large: instantiates its kernel.
#include "sm90_gemm_f16_f32/sm90_gemm_f16_f32.h"

#include "sm90_gemm_f16_f32/large.cuh"
#include "mmagen/sm90_launch.cuh"

namespace sm90_gemm_f16_f32 {
// The way for matrices that TMA cannot address, in a translation unit of its own.
mmagen::Status run_unaligned(mmagen::GemmArguments<large::Config> const& args, cudaStream_t stream);
}

namespace sm90_gemm_f16_f32::large {

mmagen::Status run(sm90_gemm_f16_f32_args const& args, cudaStream_t stream)
{
  return mmagen::run_sm90<Config>(args, stream, &run_unaligned);
}

mmagen::Status query(sm90_gemm_f16_f32_info& info) { return mmagen::query_sm90<Config>(info); }

mmagen::Status workspace(int64_t& bytes) { return mmagen::workspace_sm90<Config>(bytes); }

}  // namespace sm90_gemm_f16_f32::large
