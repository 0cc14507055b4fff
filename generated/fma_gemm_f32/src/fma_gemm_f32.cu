// fma_gemm_f32: instantiates the kernel for its Config and puts it behind the C interface.
#include "fma_gemm_f32/fma_gemm_f32.h"

#include "fma_gemm_f32/config.cuh"
#include "mmagen/gemm_launch.cuh"

using fma_gemm_f32::Config;

fma_gemm_f32_status fma_gemm_f32_run(const fma_gemm_f32_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return FMA_GEMM_F32_INVALID_ARGUMENT; }
  return static_cast<fma_gemm_f32_status>(mmagen::run_gemm<Config>(*args, stream));
}

fma_gemm_f32_status fma_gemm_f32_query(fma_gemm_f32_info* info)
{
  if (info == nullptr) { return FMA_GEMM_F32_INVALID_ARGUMENT; }
  return static_cast<fma_gemm_f32_status>(mmagen::query_gemm<Config>(*info));
}

const char* fma_gemm_f32_status_text(fma_gemm_f32_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
