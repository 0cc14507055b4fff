// sm89_gemm_e5m2_tt: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm89_gemm_e5m2_tt/sm89_gemm_e5m2_tt.h"

#include "sm89_gemm_e5m2_tt/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm89_gemm_e5m2_tt::Config;

sm89_gemm_e5m2_tt_status sm89_gemm_e5m2_tt_run(const sm89_gemm_e5m2_tt_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM89_GEMM_E5M2_TT_INVALID_ARGUMENT; }
  return static_cast<sm89_gemm_e5m2_tt_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm89_gemm_e5m2_tt_status sm89_gemm_e5m2_tt_query(sm89_gemm_e5m2_tt_info* info)
{
  if (info == nullptr) { return SM89_GEMM_E5M2_TT_INVALID_ARGUMENT; }
  return static_cast<sm89_gemm_e5m2_tt_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm89_gemm_e5m2_tt_status_text(sm89_gemm_e5m2_tt_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
