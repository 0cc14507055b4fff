// sm80_gemm_f16_acc16: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm80_gemm_f16_acc16/sm80_gemm_f16_acc16.h"

#include "sm80_gemm_f16_acc16/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm80_gemm_f16_acc16::Config;

sm80_gemm_f16_acc16_status sm80_gemm_f16_acc16_run(const sm80_gemm_f16_acc16_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM80_GEMM_F16_ACC16_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_f16_acc16_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm80_gemm_f16_acc16_status sm80_gemm_f16_acc16_query(sm80_gemm_f16_acc16_info* info)
{
  if (info == nullptr) { return SM80_GEMM_F16_ACC16_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_f16_acc16_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm80_gemm_f16_acc16_status_text(sm80_gemm_f16_acc16_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
