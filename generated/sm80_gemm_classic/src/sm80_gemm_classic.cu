// sm80_gemm_classic: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm80_gemm_classic/sm80_gemm_classic.h"

#include "sm80_gemm_classic/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm80_gemm_classic::Config;

sm80_gemm_classic_status sm80_gemm_classic_run(const sm80_gemm_classic_args* args, CUstream_st* stream) {
  if (args == nullptr) { return SM80_GEMM_CLASSIC_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_classic_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm80_gemm_classic_status sm80_gemm_classic_query(sm80_gemm_classic_info* info) {
  if (info == nullptr) { return SM80_GEMM_CLASSIC_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_classic_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm80_gemm_classic_status_text(sm80_gemm_classic_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
