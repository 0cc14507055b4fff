// ownership_volta: instantiates the stamping kernel for its TiledMMA and puts it behind the C interface.
#include "ownership_volta/ownership_volta.h"

#include "ownership_volta/config.cuh"
#include "mmagen/ownership_kernel.cuh"

ownership_volta_status ownership_volta_stamp(int32_t* a, int32_t* b, int32_t* c, CUstream_st* stream)
{
  if (a == nullptr || b == nullptr || c == nullptr) { return OWNERSHIP_VOLTA_INVALID_ARGUMENT; }
  return static_cast<ownership_volta_status>(mmagen::run_ownership<ownership_volta::Config>(a, b, c, stream));
}

const char* ownership_volta_status_text(ownership_volta_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "");
}
