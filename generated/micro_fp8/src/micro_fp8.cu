// micro_fp8: instantiates the kernel for its Config and puts it behind the C interface.
#include "micro_fp8/micro_fp8.h"

#include "micro_fp8/config.cuh"
#include "mmagen/micro_launch.cuh"

using micro_fp8::Config;

micro_fp8_status micro_fp8_run(const micro_fp8_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return MICRO_FP8_INVALID_ARGUMENT; }
  return static_cast<micro_fp8_status>(mmagen::run_micro<Config>(*args, stream));
}

micro_fp8_status micro_fp8_query(micro_fp8_info* info)
{
  if (info == nullptr) { return MICRO_FP8_INVALID_ARGUMENT; }
  return static_cast<micro_fp8_status>(mmagen::query_micro<Config>(*info));
}

const char* micro_fp8_status_text(micro_fp8_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: this kernel computes m, n, k = 16, 16, 64 with batch 1, alpha 1, beta 0");
}
