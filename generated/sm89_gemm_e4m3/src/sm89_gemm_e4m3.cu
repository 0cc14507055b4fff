// sm89_gemm_e4m3: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm89_gemm_e4m3/sm89_gemm_e4m3.h"

#include "sm89_gemm_e4m3/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm89_gemm_e4m3::Config;

sm89_gemm_e4m3_status sm89_gemm_e4m3_run(const sm89_gemm_e4m3_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM89_GEMM_E4M3_INVALID_ARGUMENT; }
  return static_cast<sm89_gemm_e4m3_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm89_gemm_e4m3_status sm89_gemm_e4m3_query(sm89_gemm_e4m3_info* info)
{
  if (info == nullptr) { return SM89_GEMM_E4M3_INVALID_ARGUMENT; }
  return static_cast<sm89_gemm_e4m3_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm89_gemm_e4m3_status_text(sm89_gemm_e4m3_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
