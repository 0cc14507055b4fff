// sm80_gemm_f64_nt: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm80_gemm_f64_nt/sm80_gemm_f64_nt.h"

#include "sm80_gemm_f64_nt/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm80_gemm_f64_nt::Config;

sm80_gemm_f64_nt_status sm80_gemm_f64_nt_run(const sm80_gemm_f64_nt_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM80_GEMM_F64_NT_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_f64_nt_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm80_gemm_f64_nt_status sm80_gemm_f64_nt_query(sm80_gemm_f64_nt_info* info)
{
  if (info == nullptr) { return SM80_GEMM_F64_NT_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_f64_nt_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm80_gemm_f64_nt_status_text(sm80_gemm_f64_nt_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
