// hello_micro: instantiates the kernel for its Config and puts it behind the C interface.
#include "hello_micro/hello_micro.h"

#include "hello_micro/config.cuh"
#include "mmagen/micro_launch.cuh"

using hello_micro::Config;

hello_micro_status hello_micro_run(const hello_micro_args* args, CUstream_st* stream) {
  if (args == nullptr) { return HELLO_MICRO_INVALID_ARGUMENT; }
  return static_cast<hello_micro_status>(mmagen::run_micro<Config>(*args, stream));
}

hello_micro_status hello_micro_query(hello_micro_info* info) {
  if (info == nullptr) { return HELLO_MICRO_INVALID_ARGUMENT; }
  return static_cast<hello_micro_status>(mmagen::query_micro<Config>(*info));
}

const char* hello_micro_status_text(hello_micro_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: this kernel computes m, n, k = 32, 32, 32 with batch 1, alpha 1, beta 0");
}
