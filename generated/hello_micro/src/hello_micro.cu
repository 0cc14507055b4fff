// SPDX-License-Identifier: MIT-0
// hello_micro: instantiates the kernel for its Config and puts it behind the C interface.
#include "hello_micro/hello_micro.h"

#include "mmagen/without_iostream.cuh"

#include "hello_micro/config.cuh"
#include "mmagen/interface.cuh"
#include "mmagen/micro_launch.cuh"

namespace {

using Config = hello_micro::Config;
using Args = hello_micro_args;

mmagen::Status run(Args const& args, cudaStream_t stream) { return mmagen::run_micro<Config>(args, stream); }
mmagen::Status can_run(Args const& args) { return mmagen::run_micro<Config>(args, nullptr, mmagen::Launch::kNo); }
mmagen::Status query(hello_micro_info& info) { return mmagen::query_micro<Config>(info); }
mmagen::Status workspace(Args const&, int64_t& bytes) {
  bytes = 0;
  return mmagen::Status::kSuccess;
}
char const* config_name(Args const*) { return "hello_micro"; }

}  // namespace

namespace {

// compiled_for: set by CMakeLists.txt where the architectures are not those of the spec.
#if !defined(MMAGEN_COMPILED_FOR)
#define MMAGEN_COMPILED_FOR ""
#endif
constexpr mmagen::Interface kInterface = {"hello_micro", 'K', 'K', 'N', 2, 2, 4, 4,
                                          "sm_80 or later", MMAGEN_COMPILED_FOR, 4096, 1,
                                          "fixed shape: this kernel computes m, n, k = 32, 32, 32 with batch 1, alpha 1, beta 0"};

thread_local mmagen::LastCall<hello_micro_args> last_call;

}  // namespace

hello_micro_status hello_micro_run(const hello_micro_args* args, CUstream_st* stream) {
  auto const call = [stream](hello_micro_args const& read) { return run(read, stream); };
  return static_cast<hello_micro_status>(last_call.with_args(args, call));
}

hello_micro_status hello_micro_can_run(const hello_micro_args* args) {
  return static_cast<hello_micro_status>(last_call.probe(args, can_run));
}

hello_micro_status hello_micro_workspace_bytes(const hello_micro_args* args, int64_t* bytes) {
  auto const call = [bytes](hello_micro_args const& read) {
    return bytes == nullptr ? mmagen::Status::kNullArgs : workspace(read, *bytes);
  };
  return static_cast<hello_micro_status>(last_call.with_args(args, call));
}

hello_micro_status hello_micro_query(hello_micro_info* info) {
  return static_cast<hello_micro_status>(last_call.with_info(info, query));
}

const char* hello_micro_config_name(const hello_micro_args* args) { return config_name(args); }

const char* hello_micro_status_text(hello_micro_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), kInterface);
}

const char* hello_micro_error_text() { return last_call.text(kInterface); }

int hello_micro_cuda_error() { return last_call.cuda_error; }

const char* hello_micro_version() { return "0.1.0"; }

const char* hello_micro_description() {
  return "{\"mmagen\": \"0.1.0\", \"interface\": 2, \"name\": \"hello_micro\", \"kernel\": \"micro\", \"arch\": [\"sm_80\"],"
         " \"spec_sha\": \"135214646083b3c4\", \"a\": {\"type\": \"f16\", \"contiguous\": \"K\"}, \"b\": {\"type\": \"f16\", \""
         "contiguous\": \"K\"}, \"d\": {\"type\": \"f32\", \"contiguous\": \"N\"}, \"accumulator\": \"f32\", \"scalar\": \"f32"
         "\", \"shape\": [32, 32, 32], \"workspace\": false, \"configs\": []}";
}
