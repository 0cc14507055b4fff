// sm80_gemm_tf32: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm80_gemm_tf32/sm80_gemm_tf32.h"

#include "sm80_gemm_tf32/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm80_gemm_tf32::Config;

sm80_gemm_tf32_status sm80_gemm_tf32_run(const sm80_gemm_tf32_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM80_GEMM_TF32_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_tf32_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm80_gemm_tf32_status sm80_gemm_tf32_query(sm80_gemm_tf32_info* info)
{
  if (info == nullptr) { return SM80_GEMM_TF32_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_tf32_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm80_gemm_tf32_status_text(sm80_gemm_tf32_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
