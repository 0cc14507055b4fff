// sm90_gemm_e4m3_precise: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm90_gemm_e4m3_precise/sm90_gemm_e4m3_precise.h"

#include "sm90_gemm_e4m3_precise/config.cuh"
#include "mmagen/sm90_launch.cuh"

namespace sm90_gemm_e4m3_precise {
// The way for matrices that TMA cannot address, in a translation unit of its own.
mmagen::Status run_unaligned(mmagen::GemmArguments<Config> const& args, cudaStream_t stream);
}

using sm90_gemm_e4m3_precise::Config;

sm90_gemm_e4m3_precise_status sm90_gemm_e4m3_precise_run(const sm90_gemm_e4m3_precise_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM90_GEMM_E4M3_PRECISE_INVALID_ARGUMENT; }
  return static_cast<sm90_gemm_e4m3_precise_status>(mmagen::run_sm90<Config>(*args, stream, &sm90_gemm_e4m3_precise::run_unaligned));
}

sm90_gemm_e4m3_precise_status sm90_gemm_e4m3_precise_query(sm90_gemm_e4m3_precise_info* info)
{
  if (info == nullptr) { return SM90_GEMM_E4M3_PRECISE_INVALID_ARGUMENT; }
  return static_cast<sm90_gemm_e4m3_precise_status>(mmagen::query_sm90<Config>(*info));
}

const char* sm90_gemm_e4m3_precise_status_text(sm90_gemm_e4m3_precise_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
