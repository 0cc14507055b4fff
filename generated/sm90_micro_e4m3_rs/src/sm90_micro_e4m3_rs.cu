// sm90_micro_e4m3_rs: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm90_micro_e4m3_rs/sm90_micro_e4m3_rs.h"

#include "sm90_micro_e4m3_rs/config.cuh"
#include "mmagen/micro_launch.cuh"

using sm90_micro_e4m3_rs::Config;

sm90_micro_e4m3_rs_status sm90_micro_e4m3_rs_run(const sm90_micro_e4m3_rs_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM90_MICRO_E4M3_RS_INVALID_ARGUMENT; }
  return static_cast<sm90_micro_e4m3_rs_status>(mmagen::run_micro<Config>(*args, stream));
}

sm90_micro_e4m3_rs_status sm90_micro_e4m3_rs_query(sm90_micro_e4m3_rs_info* info)
{
  if (info == nullptr) { return SM90_MICRO_E4M3_RS_INVALID_ARGUMENT; }
  return static_cast<sm90_micro_e4m3_rs_status>(mmagen::query_micro<Config>(*info));
}

const char* sm90_micro_e4m3_rs_status_text(sm90_micro_e4m3_rs_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: this kernel computes m, n, k = 128, 64, 64 with batch 1, alpha 1, beta 0");
}
