// micro_sliced_k: instantiates the kernel for its Config and puts it behind the C interface.
#include "micro_sliced_k/micro_sliced_k.h"

#include "micro_sliced_k/config.cuh"
#include "mmagen/micro_launch.cuh"

using micro_sliced_k::Config;

micro_sliced_k_status micro_sliced_k_run(const micro_sliced_k_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return MICRO_SLICED_K_INVALID_ARGUMENT; }
  return static_cast<micro_sliced_k_status>(mmagen::run_micro<Config>(*args, stream));
}

micro_sliced_k_status micro_sliced_k_query(micro_sliced_k_info* info)
{
  if (info == nullptr) { return MICRO_SLICED_K_INVALID_ARGUMENT; }
  return static_cast<micro_sliced_k_status>(mmagen::query_micro<Config>(*info));
}

const char* micro_sliced_k_status_text(micro_sliced_k_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: this kernel computes m, n, k = 32, 32, 64 with batch 1, alpha 1, beta 0");
}
