// SPDX-License-Identifier: MIT-0
// hello_ownership: instantiates the ownership kernel for its TiledMMA and puts it behind the C interface.
#include "hello_ownership/hello_ownership.h"

#include "mmagen/without_iostream.cuh"

#include "hello_ownership/config.cuh"
#include "mmagen/interface.cuh"
#include "mmagen/ownership_kernel.cuh"

namespace {

// compiled_for: set by CMakeLists.txt where the architectures are not those of the spec.
#if !defined(MMAGEN_COMPILED_FOR)
#define MMAGEN_COMPILED_FOR ""
#endif
constexpr mmagen::Interface kInterface = {"hello_ownership", 'K', 'K', 'N', 4, 4, 4, 4,
                                          "sm_80 or later", MMAGEN_COMPILED_FOR, 0, 1,
                                          ""};

thread_local mmagen::LastStatus last_call;

}  // namespace

hello_ownership_status hello_ownership_stamp(int32_t* a, int32_t* b, int32_t* c, CUstream_st* stream) {
  last_call.begin();
  auto status = a == nullptr ? mmagen::Status::kNullA : b == nullptr ? mmagen::Status::kNullB : mmagen::Status::kNullC;
  if (a != nullptr && b != nullptr && c != nullptr) { status = mmagen::run_ownership<hello_ownership::Config>(a, b, c, stream); }
  return static_cast<hello_ownership_status>(last_call.keep(status));
}

const char* hello_ownership_status_text(hello_ownership_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), kInterface);
}

const char* hello_ownership_error_text() { return last_call.text(kInterface); }

int hello_ownership_cuda_error() { return last_call.cuda_error; }

const char* hello_ownership_version() { return "0.1.0"; }

const char* hello_ownership_description() {
  return "{\"mmagen\": \"0.1.0\", \"interface\": 2, \"name\": \"hello_ownership\", \"kernel\": \"ownership\", \"arch\": [\""
         "sm_80\"], \"spec_sha\": \"4a3253ad6ed5a16c\"}";
}
