// sm75_gemm_f16: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm75_gemm_f16/sm75_gemm_f16.h"

#include "sm75_gemm_f16/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm75_gemm_f16::Config;

sm75_gemm_f16_status sm75_gemm_f16_run(const sm75_gemm_f16_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM75_GEMM_F16_INVALID_ARGUMENT; }
  return static_cast<sm75_gemm_f16_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm75_gemm_f16_status sm75_gemm_f16_query(sm75_gemm_f16_info* info)
{
  if (info == nullptr) { return SM75_GEMM_F16_INVALID_ARGUMENT; }
  return static_cast<sm75_gemm_f16_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm75_gemm_f16_status_text(sm75_gemm_f16_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
