// ownership_sliced_k: instantiates the stamping kernel for its TiledMMA and puts it behind the C interface.
#include "ownership_sliced_k/ownership_sliced_k.h"

#include "ownership_sliced_k/config.cuh"
#include "mmagen/ownership_kernel.cuh"

ownership_sliced_k_status ownership_sliced_k_stamp(int32_t* a, int32_t* b, int32_t* c, CUstream_st* stream)
{
  if (a == nullptr || b == nullptr || c == nullptr) { return OWNERSHIP_SLICED_K_INVALID_ARGUMENT; }
  return static_cast<ownership_sliced_k_status>(mmagen::run_ownership<ownership_sliced_k::Config>(a, b, c, stream));
}

const char* ownership_sliced_k_status_text(ownership_sliced_k_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "");
}
