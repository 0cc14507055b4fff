// ownership_tiled: instantiates the stamping kernel for its TiledMMA and puts it behind the C interface.
#include "ownership_tiled/ownership_tiled.h"

#include "ownership_tiled/config.cuh"
#include "mmagen/ownership_kernel.cuh"

ownership_tiled_status ownership_tiled_stamp(int32_t* a, int32_t* b, int32_t* c, CUstream_st* stream)
{
  if (a == nullptr || b == nullptr || c == nullptr) { return OWNERSHIP_TILED_INVALID_ARGUMENT; }
  return static_cast<ownership_tiled_status>(mmagen::run_ownership<ownership_tiled::Config>(a, b, c, stream));
}

const char* ownership_tiled_status_text(ownership_tiled_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "");
}
