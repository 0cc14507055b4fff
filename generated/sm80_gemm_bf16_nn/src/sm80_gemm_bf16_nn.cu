// sm80_gemm_bf16_nn: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm80_gemm_bf16_nn/sm80_gemm_bf16_nn.h"

#include "sm80_gemm_bf16_nn/config.cuh"
#include "mmagen/gemm_launch.cuh"

using sm80_gemm_bf16_nn::Config;

sm80_gemm_bf16_nn_status sm80_gemm_bf16_nn_run(const sm80_gemm_bf16_nn_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM80_GEMM_BF16_NN_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_bf16_nn_status>(mmagen::run_gemm<Config>(*args, stream));
}

sm80_gemm_bf16_nn_status sm80_gemm_bf16_nn_query(sm80_gemm_bf16_nn_info* info)
{
  if (info == nullptr) { return SM80_GEMM_BF16_NN_INVALID_ARGUMENT; }
  return static_cast<sm80_gemm_bf16_nn_status>(mmagen::query_gemm<Config>(*info));
}

const char* sm80_gemm_bf16_nn_status_text(sm80_gemm_bf16_nn_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
