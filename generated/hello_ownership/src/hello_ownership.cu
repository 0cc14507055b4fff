// hello_ownership: instantiates the ownership kernel for its TiledMMA and puts it behind the C interface.
#include "hello_ownership/hello_ownership.h"

#include "hello_ownership/config.cuh"
#include "mmagen/ownership_kernel.cuh"

hello_ownership_status hello_ownership_stamp(int32_t* a, int32_t* b, int32_t* c, CUstream_st* stream) {
  if (a == nullptr || b == nullptr || c == nullptr) { return HELLO_OWNERSHIP_INVALID_ARGUMENT; }
  return static_cast<hello_ownership_status>(mmagen::run_ownership<hello_ownership::Config>(a, b, c, stream));
}

const char* hello_ownership_status_text(hello_ownership_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), "");
}
