// SPDX-License-Identifier: MIT-0
// sm80_gemm_classic: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm80_gemm_classic/sm80_gemm_classic.h"

#include "mmagen/without_iostream.cuh"

#include "sm80_gemm_classic/config.cuh"
#include "mmagen/interface.cuh"
#include "mmagen/gemm_launch.cuh"

namespace {

using Config = sm80_gemm_classic::Config;
using Args = sm80_gemm_classic_args;

mmagen::Status run(Args const& args, cudaStream_t stream) { return mmagen::run_gemm<Config>(args, stream); }
mmagen::Status can_run(Args const& args) { return mmagen::run_gemm<Config>(args, nullptr, mmagen::Launch::kNo); }
mmagen::Status query(sm80_gemm_classic_info& info) { return mmagen::query_gemm<Config>(info); }
mmagen::Status workspace(Args const&, int64_t& bytes) {
  bytes = 0;
  return mmagen::Status::kSuccess;
}
char const* config_name(Args const*) { return "sm80_gemm_classic"; }

}  // namespace

namespace {

// compiled_for: set by CMakeLists.txt where the architectures are not those of the spec.
#if !defined(MMAGEN_COMPILED_FOR)
#define MMAGEN_COMPILED_FOR ""
#endif
constexpr mmagen::Interface kInterface = {"sm80_gemm_classic", 'K', 'K', 'N', 2, 2, 2, 4,
                                          "sm_80 or later", MMAGEN_COMPILED_FOR, 49152, 1,
                                          "fixed shape: not a status of this kernel"};

thread_local mmagen::LastCall<sm80_gemm_classic_args> last_call;

}  // namespace

sm80_gemm_classic_status sm80_gemm_classic_run(const sm80_gemm_classic_args* args, CUstream_st* stream) {
  auto const call = [stream](sm80_gemm_classic_args const& read) { return run(read, stream); };
  return static_cast<sm80_gemm_classic_status>(last_call.with_args(args, call));
}

sm80_gemm_classic_status sm80_gemm_classic_can_run(const sm80_gemm_classic_args* args) {
  return static_cast<sm80_gemm_classic_status>(last_call.probe(args, can_run));
}

sm80_gemm_classic_status sm80_gemm_classic_workspace_bytes(const sm80_gemm_classic_args* args, int64_t* bytes) {
  auto const call = [bytes](sm80_gemm_classic_args const& read) {
    return bytes == nullptr ? mmagen::Status::kNullArgs : workspace(read, *bytes);
  };
  return static_cast<sm80_gemm_classic_status>(last_call.with_args(args, call));
}

sm80_gemm_classic_status sm80_gemm_classic_query(sm80_gemm_classic_info* info) {
  return static_cast<sm80_gemm_classic_status>(last_call.with_info(info, query));
}

const char* sm80_gemm_classic_config_name(const sm80_gemm_classic_args* args) { return config_name(args); }

const char* sm80_gemm_classic_status_text(sm80_gemm_classic_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), kInterface);
}

const char* sm80_gemm_classic_error_text() { return last_call.text(kInterface); }

int sm80_gemm_classic_cuda_error() { return last_call.cuda_error; }

const char* sm80_gemm_classic_version() { return "0.1.0"; }

const char* sm80_gemm_classic_description() {
  return "{\"mmagen\": \"0.1.0\", \"interface\": 2, \"name\": \"sm80_gemm_classic\", \"kernel\": \"gemm\", \"arch\": [\"sm_"
         "80\"], \"spec_sha\": \"e0f8d01bc0e61634\", \"a\": {\"type\": \"f16\", \"contiguous\": \"K\"}, \"b\": {\"type\": \"f1"
         "6\", \"contiguous\": \"K\"}, \"d\": {\"type\": \"f16\", \"contiguous\": \"N\"}, \"accumulator\": \"f32\", \"scalar\":"
         " \"f32\", \"shape\": null, \"workspace\": false, \"configs\": []}";
}
