// micro_volta: instantiates the kernel for its Config and puts it behind the C interface.
#include "micro_volta/micro_volta.h"

#include "micro_volta/config.cuh"
#include "mmagen/micro_launch.cuh"

using micro_volta::Config;

micro_volta_status micro_volta_run(const micro_volta_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return MICRO_VOLTA_INVALID_ARGUMENT; }
  return static_cast<micro_volta_status>(mmagen::run_micro<Config>(*args, stream));
}

micro_volta_status micro_volta_query(micro_volta_info* info)
{
  if (info == nullptr) { return MICRO_VOLTA_INVALID_ARGUMENT; }
  return static_cast<micro_volta_status>(mmagen::query_micro<Config>(*info));
}

const char* micro_volta_status_text(micro_volta_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: this kernel computes m, n, k = 32, 32, 8 with batch 1, alpha 1, beta 0");
}
