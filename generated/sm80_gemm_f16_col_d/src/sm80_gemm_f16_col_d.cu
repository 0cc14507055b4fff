// sm80_gemm_f16_col_d: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm80_gemm_f16_col_d/sm80_gemm_f16_col_d.h"

#include "sm80_gemm_f16_col_d/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm80_gemm_f16_col_d::Config;

sm80_gemm_f16_col_d_status sm80_gemm_f16_col_d_run(const sm80_gemm_f16_col_d_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM80_GEMM_F16_COL_D_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_f16_col_d_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm80_gemm_f16_col_d_status sm80_gemm_f16_col_d_query(sm80_gemm_f16_col_d_info* info)
{
  if (info == nullptr) { return SM80_GEMM_F16_COL_D_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_f16_col_d_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm80_gemm_f16_col_d_status_text(sm80_gemm_f16_col_d_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
