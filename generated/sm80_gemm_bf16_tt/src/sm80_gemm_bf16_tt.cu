// sm80_gemm_bf16_tt: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm80_gemm_bf16_tt/sm80_gemm_bf16_tt.h"

#include "sm80_gemm_bf16_tt/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm80_gemm_bf16_tt::Config;

sm80_gemm_bf16_tt_status sm80_gemm_bf16_tt_run(const sm80_gemm_bf16_tt_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM80_GEMM_BF16_TT_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_bf16_tt_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm80_gemm_bf16_tt_status sm80_gemm_bf16_tt_query(sm80_gemm_bf16_tt_info* info)
{
  if (info == nullptr) { return SM80_GEMM_BF16_TT_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_bf16_tt_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm80_gemm_bf16_tt_status_text(sm80_gemm_bf16_tt_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
