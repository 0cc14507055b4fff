// fma_micro: instantiates the kernel for its Config and puts it behind the C interface.
#include "fma_micro/fma_micro.h"

#include "fma_micro/config.cuh"
#include "mmagen/micro_launch.cuh"

using fma_micro::Config;

fma_micro_status fma_micro_run(const fma_micro_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return FMA_MICRO_INVALID_ARGUMENT; }
  return static_cast<fma_micro_status>(mmagen::run_micro<Config>(*args, stream));
}

fma_micro_status fma_micro_query(fma_micro_info* info)
{
  if (info == nullptr) { return FMA_MICRO_INVALID_ARGUMENT; }
  return static_cast<fma_micro_status>(mmagen::query_micro<Config>(*info));
}

const char* fma_micro_status_text(fma_micro_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: this kernel computes m, n, k = 32, 32, 8 with batch 1, alpha 1, beta 0");
}
