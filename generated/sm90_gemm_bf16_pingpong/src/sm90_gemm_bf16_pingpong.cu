// SPDX-License-Identifier: MIT-0
// sm90_gemm_bf16_pingpong: instantiates the Config's kernels, which load with and without TMA, behind the C interface.
#include "sm90_gemm_bf16_pingpong/sm90_gemm_bf16_pingpong.h"

#include "mmagen/without_iostream.cuh"

#include "sm90_gemm_bf16_pingpong/config.cuh"
#include "mmagen/interface.cuh"
#include "mmagen/operand_copies.cuh"
#include "mmagen/sm90_launch.cuh"
#include "mmagen/sm90_swapped.cuh"
#include "mmagen/sm90_unaligned.cuh"

namespace {

using Config = sm90_gemm_bf16_pingpong::Config;
using Args = sm90_gemm_bf16_pingpong_args;

// Runs a call whose operands TMA cannot address.
mmagen::Status run_unaligned(mmagen::CallArguments<Config> const& args, cudaStream_t stream, mmagen::Launch launch) {
  return mmagen::run_sm90_unaligned<Config>(mmagen::kernel_arguments<Config>(args), stream, launch);
}

// Copies operands that TMA cannot address to the workspace, if that saves time, and changes the arguments to the copies.
mmagen::Status copy_operands(sm90_gemm_bf16_pingpong_args& args, cudaStream_t stream) {
  return mmagen::copy_operands<mmagen::CallOperands<Config>>(args, stream);
}

int64_t copied_bytes(sm90_gemm_bf16_pingpong_args const& args) { return mmagen::copied_bytes<mmagen::CallOperands<Config>>(args); }

mmagen::Status run(Args const& args, cudaStream_t stream) {
  Args copied = args;
  mmagen::Status const status = copy_operands(copied, stream);
  if (status != mmagen::Status::kSuccess) { return status; }
  return mmagen::run_sm90<Config>(copied, stream, &run_unaligned);
}
mmagen::Status can_run(Args const& args) {
  return mmagen::run_sm90<Config>(args, nullptr, &run_unaligned, mmagen::Launch::kNo);
}
mmagen::Status query(sm90_gemm_bf16_pingpong_info& info) { return mmagen::query_sm90<Config>(info); }
mmagen::Status workspace(Args const& args, int64_t& bytes) {
  mmagen::Status const status = mmagen::workspace_sm90<Config>(args, bytes);
  if (status == mmagen::Status::kSuccess) { bytes += copied_bytes(args); }
  return status;
}
char const* config_name(Args const*) { return "sm90_gemm_bf16_pingpong"; }

}  // namespace

namespace {

// compiled_for: set by CMakeLists.txt where the architectures are not those of the spec.
#if !defined(MMAGEN_COMPILED_FOR)
#define MMAGEN_COMPILED_FOR ""
#endif
constexpr mmagen::Interface kInterface = {"sm90_gemm_bf16_pingpong", 'K', 'K', 'N', 2, 2, 2, 4,
                                          "sm_90a", MMAGEN_COMPILED_FOR, 197632, 2,
                                          "fixed shape: not a status of this kernel"};

thread_local mmagen::LastCall<sm90_gemm_bf16_pingpong_args> last_call;

}  // namespace

sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_run(const sm90_gemm_bf16_pingpong_args* args, CUstream_st* stream) {
  auto const call = [stream](sm90_gemm_bf16_pingpong_args const& read) { return run(read, stream); };
  return static_cast<sm90_gemm_bf16_pingpong_status>(last_call.with_args(args, call));
}

sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_can_run(const sm90_gemm_bf16_pingpong_args* args) {
  return static_cast<sm90_gemm_bf16_pingpong_status>(last_call.probe(args, can_run));
}

sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_workspace_bytes(const sm90_gemm_bf16_pingpong_args* args, int64_t* bytes) {
  auto const call = [bytes](sm90_gemm_bf16_pingpong_args const& read) {
    return bytes == nullptr ? mmagen::Status::kNullArgs : workspace(read, *bytes);
  };
  return static_cast<sm90_gemm_bf16_pingpong_status>(last_call.with_args(args, call));
}

sm90_gemm_bf16_pingpong_status sm90_gemm_bf16_pingpong_query(sm90_gemm_bf16_pingpong_info* info) {
  return static_cast<sm90_gemm_bf16_pingpong_status>(last_call.with_info(info, query));
}

const char* sm90_gemm_bf16_pingpong_config_name(const sm90_gemm_bf16_pingpong_args* args) { return config_name(args); }

const char* sm90_gemm_bf16_pingpong_status_text(sm90_gemm_bf16_pingpong_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), kInterface);
}

const char* sm90_gemm_bf16_pingpong_error_text() { return last_call.text(kInterface); }

int sm90_gemm_bf16_pingpong_cuda_error() { return last_call.cuda_error; }

const char* sm90_gemm_bf16_pingpong_version() { return "0.1.0"; }

const char* sm90_gemm_bf16_pingpong_description() {
  return "{\"mmagen\": \"0.1.0\", \"interface\": 2, \"name\": \"sm90_gemm_bf16_pingpong\", \"kernel\": \"gemm\", \"arch\":"
         " [\"sm_90a\"], \"spec_sha\": \"3ff9e9e3e8be5c9f\", \"a\": {\"type\": \"bf16\", \"contiguous\": \"K\"}, \"b\": {\"ty"
         "pe\": \"bf16\", \"contiguous\": \"K\"}, \"d\": {\"type\": \"bf16\", \"contiguous\": \"N\"}, \"accumulator\": \"f32\","
         " \"scalar\": \"f32\", \"shape\": null, \"workspace\": true, \"configs\": []}";
}
