// sm90_micro_bf16: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm90_micro_bf16/sm90_micro_bf16.h"

#include "sm90_micro_bf16/config.cuh"
#include "mmagen/micro_launch.cuh"

using sm90_micro_bf16::Config;

sm90_micro_bf16_status sm90_micro_bf16_run(const sm90_micro_bf16_args* args, CUstream_st* stream) {
  if (args == nullptr) { return SM90_MICRO_BF16_INVALID_ARGUMENT; }
  return static_cast<sm90_micro_bf16_status>(mmagen::run_micro<Config>(*args, stream));
}

sm90_micro_bf16_status sm90_micro_bf16_query(sm90_micro_bf16_info* info) {
  if (info == nullptr) { return SM90_MICRO_BF16_INVALID_ARGUMENT; }
  return static_cast<sm90_micro_bf16_status>(mmagen::query_micro<Config>(*info));
}

const char* sm90_micro_bf16_status_text(sm90_micro_bf16_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: this kernel computes m, n, k = 64, 64, 64 with batch 1, alpha 1, beta 0");
}
