// sm90_gemm_bf16_pingpong: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm90_gemm_bf16_pingpong/sm90_gemm_bf16_pingpong.h"

#include "sm90_gemm_bf16_pingpong/config.cuh"
#include "mmagen/sm90_launch.cuh"

namespace sm90_gemm_bf16_pingpong {
// For matrices that TMA cannot address; in a translation unit of its own.
mmagen::Status run_unaligned(mmagen::GemmArguments<Config> const& args, cudaStream_t stream);
}

using sm90_gemm_bf16_pingpong::Config;

sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_run(const sm90_gemm_bf16_pingpong_args* args, CUstream_st* stream) {
  if (args == nullptr) { return SM90_GEMM_BF16_PINGPONG_INVALID_ARGUMENT; }
  return static_cast<sm90_gemm_bf16_pingpong_status>(mmagen::run_sm90<Config>(*args, stream, &sm90_gemm_bf16_pingpong::run_unaligned));
}

sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_query(sm90_gemm_bf16_pingpong_info* info) {
  if (info == nullptr) { return SM90_GEMM_BF16_PINGPONG_INVALID_ARGUMENT; }
  return static_cast<sm90_gemm_bf16_pingpong_status>(mmagen::query_sm90<Config>(*info));
}

const char* sm90_gemm_bf16_pingpong_status_text(sm90_gemm_bf16_pingpong_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
