// SPDX-License-Identifier: MIT-0
// sm90_micro_bf16: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm90_micro_bf16/sm90_micro_bf16.h"

#include "mmagen/without_iostream.cuh"

#include "sm90_micro_bf16/config.cuh"
#include "mmagen/interface.cuh"
#include "mmagen/micro_launch.cuh"

namespace {

using Config = sm90_micro_bf16::Config;
using Args = sm90_micro_bf16_args;

mmagen::Status run(Args const& args, cudaStream_t stream) { return mmagen::run_micro<Config>(args, stream); }
mmagen::Status can_run(Args const& args) { return mmagen::run_micro<Config>(args, nullptr, mmagen::Launch::kNo); }
mmagen::Status query(sm90_micro_bf16_info& info) { return mmagen::query_micro<Config>(info); }
mmagen::Status workspace(Args const&, int64_t& bytes) {
  bytes = 0;
  return mmagen::Status::kSuccess;
}
char const* config_name(Args const*) { return "sm90_micro_bf16"; }

}  // namespace

namespace {

// compiled_for: set by CMakeLists.txt where the architectures are not those of the spec.
#if !defined(MMAGEN_COMPILED_FOR)
#define MMAGEN_COMPILED_FOR ""
#endif
constexpr mmagen::Interface kInterface = {"sm90_micro_bf16", 'K', 'K', 'N', 2, 2, 4, 4,
                                          "sm_90a", MMAGEN_COMPILED_FOR, 16384, 1,
                                          "fixed shape: this kernel computes m, n, k = 64, 64, 64 with batch 1, alpha 1, beta 0"};

thread_local mmagen::LastCall<sm90_micro_bf16_args> last_call;

}  // namespace

sm90_micro_bf16_status sm90_micro_bf16_run(const sm90_micro_bf16_args* args, CUstream_st* stream) {
  auto const call = [stream](sm90_micro_bf16_args const& read) { return run(read, stream); };
  return static_cast<sm90_micro_bf16_status>(last_call.with_args(args, call));
}

sm90_micro_bf16_status sm90_micro_bf16_can_run(const sm90_micro_bf16_args* args) {
  return static_cast<sm90_micro_bf16_status>(last_call.probe(args, can_run));
}

sm90_micro_bf16_status sm90_micro_bf16_workspace_bytes(const sm90_micro_bf16_args* args, int64_t* bytes) {
  auto const call = [bytes](sm90_micro_bf16_args const& read) {
    return bytes == nullptr ? mmagen::Status::kNullArgs : workspace(read, *bytes);
  };
  return static_cast<sm90_micro_bf16_status>(last_call.with_args(args, call));
}

sm90_micro_bf16_status sm90_micro_bf16_query(sm90_micro_bf16_info* info) {
  return static_cast<sm90_micro_bf16_status>(last_call.with_info(info, query));
}

const char* sm90_micro_bf16_config_name(const sm90_micro_bf16_args* args) { return config_name(args); }

const char* sm90_micro_bf16_status_text(sm90_micro_bf16_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), kInterface);
}

const char* sm90_micro_bf16_error_text() { return last_call.text(kInterface); }

int sm90_micro_bf16_cuda_error() { return last_call.cuda_error; }

const char* sm90_micro_bf16_version() { return "0.1.0"; }

const char* sm90_micro_bf16_description() {
  return "{\"mmagen\": \"0.1.0\", \"interface\": 2, \"name\": \"sm90_micro_bf16\", \"kernel\": \"micro\", \"arch\": [\"sm_9"
         "0a\"], \"spec_sha\": \"26c6a82baf35cd4e\", \"a\": {\"type\": \"bf16\", \"contiguous\": \"K\"}, \"b\": {\"type\": \"b"
         "f16\", \"contiguous\": \"K\"}, \"d\": {\"type\": \"f32\", \"contiguous\": \"N\"}, \"accumulator\": \"f32\", \"scalar"
         "\": \"f32\", \"shape\": [64, 64, 64], \"workspace\": false, \"configs\": []}";
}
