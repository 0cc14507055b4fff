// sm80_gemm_sliced_k: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm80_gemm_sliced_k/sm80_gemm_sliced_k.h"

#include "sm80_gemm_sliced_k/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm80_gemm_sliced_k::Config;

sm80_gemm_sliced_k_status sm80_gemm_sliced_k_run(const sm80_gemm_sliced_k_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM80_GEMM_SLICED_K_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_sliced_k_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm80_gemm_sliced_k_status sm80_gemm_sliced_k_query(sm80_gemm_sliced_k_info* info)
{
  if (info == nullptr) { return SM80_GEMM_SLICED_K_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_sliced_k_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm80_gemm_sliced_k_status_text(sm80_gemm_sliced_k_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
