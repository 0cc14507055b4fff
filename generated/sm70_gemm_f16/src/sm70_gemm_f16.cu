// sm70_gemm_f16: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm70_gemm_f16/sm70_gemm_f16.h"

#include "sm70_gemm_f16/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm70_gemm_f16::Config;

sm70_gemm_f16_status sm70_gemm_f16_run(const sm70_gemm_f16_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM70_GEMM_F16_INVALID_ARGUMENT; }
  return static_cast<sm70_gemm_f16_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm70_gemm_f16_status sm70_gemm_f16_query(sm70_gemm_f16_info* info)
{
  if (info == nullptr) { return SM70_GEMM_F16_INVALID_ARGUMENT; }
  return static_cast<sm70_gemm_f16_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm70_gemm_f16_status_text(sm70_gemm_f16_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
