// sm90_gemm_bf16_nt, config large: instantiates its kernel.
#include "sm90_gemm_bf16_nt/sm90_gemm_bf16_nt.h"

#include "sm90_gemm_bf16_nt/large.cuh"
#include "mmagen/sm90_launch.cuh"

namespace sm90_gemm_bf16_nt {
// The way for matrices that TMA cannot address, in a translation unit of its own.
mmagen::Status run_unaligned(mmagen::GemmArguments<large::Config> const& args, cudaStream_t stream);
}

namespace sm90_gemm_bf16_nt::large {

mmagen::Status run(sm90_gemm_bf16_nt_args const& args, cudaStream_t stream)
{
  return mmagen::run_sm90<Config>(args, stream, &run_unaligned);
}

mmagen::Status query(sm90_gemm_bf16_nt_info& info) { return mmagen::query_sm90<Config>(info); }

mmagen::Status workspace(int64_t& bytes) { return mmagen::workspace_sm90<Config>(bytes); }

}  // namespace sm90_gemm_bf16_nt::large
