// SPDX-License-Identifier: MIT-0
// sm90_micro_sparse: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm90_micro_sparse/sm90_micro_sparse.h"

#include "mmagen/without_iostream.cuh"

#include "sm90_micro_sparse/config.cuh"
#include "mmagen/instruction_wgmma_kernel.cuh"
#include "mmagen/instruction_launch.cuh"
#include "mmagen/interface.cuh"

namespace {

using Config = sm90_micro_sparse::Config;
using Args = sm90_micro_sparse_args;

mmagen::Status run(Args const& args, cudaStream_t stream) { return mmagen::run_instruction<Config>(args, stream); }
mmagen::Status can_run(Args const& args) { return mmagen::run_instruction<Config>(args, nullptr, mmagen::Launch::kNo); }
mmagen::Status query(sm90_micro_sparse_info& info) { return mmagen::query_instruction<Config>(info); }
mmagen::Status workspace(Args const&, int64_t& bytes) {
  bytes = 0;
  return mmagen::Status::kSuccess;
}
char const* config_name(Args const*) { return "sm90_micro_sparse"; }

}  // namespace

namespace {

// compiled_for: set by CMakeLists.txt where the architectures are not those of the spec.
#if !defined(MMAGEN_COMPILED_FOR)
#define MMAGEN_COMPILED_FOR ""
#endif
constexpr mmagen::Interface kInterface = {"sm90_micro_sparse", 'K', 'K', 'N', 16, 16, 16, 8,
                                          "sm_90a", MMAGEN_COMPILED_FOR, 4096, 1,
                                          ""};

thread_local mmagen::LastCall<sm90_micro_sparse_args> last_call;

}  // namespace

sm90_micro_sparse_status sm90_micro_sparse_run(const sm90_micro_sparse_args* args, CUstream_st* stream) {
  auto const call = [stream](sm90_micro_sparse_args const& read) { return run(read, stream); };
  return static_cast<sm90_micro_sparse_status>(last_call.with_args(args, call));
}

sm90_micro_sparse_status sm90_micro_sparse_can_run(const sm90_micro_sparse_args* args) {
  return static_cast<sm90_micro_sparse_status>(last_call.probe(args, can_run));
}

sm90_micro_sparse_status sm90_micro_sparse_workspace_bytes(const sm90_micro_sparse_args* args, int64_t* bytes) {
  auto const call = [bytes](sm90_micro_sparse_args const& read) {
    return bytes == nullptr ? mmagen::Status::kNullArgs : workspace(read, *bytes);
  };
  return static_cast<sm90_micro_sparse_status>(last_call.with_args(args, call));
}

sm90_micro_sparse_status sm90_micro_sparse_query(sm90_micro_sparse_info* info) {
  return static_cast<sm90_micro_sparse_status>(last_call.with_info(info, query));
}

const char* sm90_micro_sparse_config_name(const sm90_micro_sparse_args* args) { return config_name(args); }

const char* sm90_micro_sparse_status_text(sm90_micro_sparse_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), kInterface);
}

const char* sm90_micro_sparse_error_text() { return last_call.text(kInterface); }

int sm90_micro_sparse_cuda_error() { return last_call.cuda_error; }

const char* sm90_micro_sparse_version() { return "0.1.0"; }

const char* sm90_micro_sparse_description() {
  return "{\"mmagen\": \"0.1.0\", \"interface\": 2, \"name\": \"sm90_micro_sparse\", \"kernel\": \"micro\", \"arch\": [\"sm"
         "_90a\"], \"spec_sha\": \"381f48ccc588a9cc\", \"shape\": [64, 32, 32], \"operands\": {\"a\": \"bf16; the 2 no"
         "nzeros of each 4 neighbours along K\", \"b\": \"bf16\", \"c\": \"f32\", \"metadata_a\": \"metadata of A, one"
         " byte per 8 logical elements\"}}";
}
