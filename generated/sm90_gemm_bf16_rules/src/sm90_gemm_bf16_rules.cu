// SPDX-License-Identifier: MIT-0
// sm90_gemm_bf16_rules: chooses one of its kernels for a problem, behind the C interface.
#include "sm90_gemm_bf16_rules/sm90_gemm_bf16_rules.h"

#include "mmagen/choice.cuh"
#include "mmagen/interface.cuh"
#include "mmagen/status.cuh"

// The kernels, each in a file of its own.
namespace sm90_gemm_bf16_rules::small_m {
mmagen::Status run(sm90_gemm_bf16_rules_args const& args, cudaStream_t stream);
mmagen::Status can_run(sm90_gemm_bf16_rules_args const& args);
mmagen::Status query(sm90_gemm_bf16_rules_info& info);
}
namespace sm90_gemm_bf16_rules::one_wave {
mmagen::Status run(sm90_gemm_bf16_rules_args const& args, cudaStream_t stream);
mmagen::Status can_run(sm90_gemm_bf16_rules_args const& args);
mmagen::Status query(sm90_gemm_bf16_rules_info& info);
}
namespace sm90_gemm_bf16_rules::two_waves {
mmagen::Status run(sm90_gemm_bf16_rules_args const& args, cudaStream_t stream);
mmagen::Status can_run(sm90_gemm_bf16_rules_args const& args);
mmagen::Status query(sm90_gemm_bf16_rules_info& info);
}
namespace sm90_gemm_bf16_rules::large {
mmagen::Status run(sm90_gemm_bf16_rules_args const& args, cudaStream_t stream);
mmagen::Status can_run(sm90_gemm_bf16_rules_args const& args);
mmagen::Status query(sm90_gemm_bf16_rules_info& info);
mmagen::Status workspace(sm90_gemm_bf16_rules_args const& args, int64_t& bytes);
}
namespace sm90_gemm_bf16_rules {
// If that saves time, copies operands that do not meet TMA's alignment requirements to the workspace, and changes the arguments to
// the copies.
mmagen::Status copy_operands(sm90_gemm_bf16_rules_args& args, cudaStream_t stream);
int64_t copied_bytes(sm90_gemm_bf16_rules_args const& args);
void take_pitches_of_copies(sm90_gemm_bf16_rules_args& args, bool with_workspace);
}

namespace {

using Args = sm90_gemm_bf16_rules_args;

// The first one whose rule holds is chosen; of those without a rule, the one with the least predicted time.
constexpr mmagen::Candidate<Args, sm90_gemm_bf16_rules_info> kConfigs[] = {
    { "small_m", mmagen::When().m(1, 64), &sm90_gemm_bf16_rules::small_m::run, &sm90_gemm_bf16_rules::small_m::can_run,
      &sm90_gemm_bf16_rules::small_m::query, nullptr },
    { "one_wave", mmagen::When().mn(1, 1081344), &sm90_gemm_bf16_rules::one_wave::run, &sm90_gemm_bf16_rules::one_wave::can_run,
      &sm90_gemm_bf16_rules::one_wave::query, nullptr },
    { "two_waves", mmagen::When().mn(1, 4325376), &sm90_gemm_bf16_rules::two_waves::run, &sm90_gemm_bf16_rules::two_waves::can_run,
      &sm90_gemm_bf16_rules::two_waves::query, nullptr },
    { "large", mmagen::When(), &sm90_gemm_bf16_rules::large::run, &sm90_gemm_bf16_rules::large::can_run,
      &sm90_gemm_bf16_rules::large::query, &sm90_gemm_bf16_rules::large::workspace },
};

// If copies are made, the choice depends on their pitches: the kernel reads the copies.
auto const& chosen(Args args, mmagen::Workspace workspace = mmagen::Workspace::kAsGiven) {
  sm90_gemm_bf16_rules::take_pitches_of_copies(args, workspace == mmagen::Workspace::kAsAskedFor);
  return mmagen::choose(kConfigs, args, workspace);
}

mmagen::Status run(Args const& args, cudaStream_t stream) {
  Args copied = args;
  mmagen::Status const status = sm90_gemm_bf16_rules::copy_operands(copied, stream);
  if (status != mmagen::Status::kSuccess) { return status; }
  return chosen(copied).run(copied, stream);
}
mmagen::Status can_run(Args const& args) { return chosen(args).can_run(args); }
mmagen::Status query(sm90_gemm_bf16_rules_info& info) { return mmagen::query_all(kConfigs, info); }
mmagen::Status workspace(Args const& args, int64_t& bytes) {
  bytes = 0;
  auto const& one = chosen(args, mmagen::Workspace::kAsAskedFor);
  mmagen::Status const status = one.workspace == nullptr ? mmagen::Status::kSuccess : one.workspace(args, bytes);
  if (status == mmagen::Status::kSuccess) { bytes += sm90_gemm_bf16_rules::copied_bytes(args); }
  return status;
}
char const* config_name(Args const* args) { return args == nullptr ? "" : chosen(*args).name; }

}  // namespace

namespace {

// compiled_for: set by CMakeLists.txt where the architectures are not those of the spec.
#if !defined(MMAGEN_COMPILED_FOR)
#define MMAGEN_COMPILED_FOR ""
#endif
constexpr mmagen::Interface kInterface = {"sm90_gemm_bf16_rules", 'K', 'K', 'N', 2, 2, 2, 4,
                                          "sm_90a", MMAGEN_COMPILED_FOR, 230400, 2,
                                          "fixed shape: not a status of this kernel"};

thread_local mmagen::LastCall<sm90_gemm_bf16_rules_args> last_call;

}  // namespace

sm90_gemm_bf16_rules_status sm90_gemm_bf16_rules_run(const sm90_gemm_bf16_rules_args* args, CUstream_st* stream) {
  auto const call = [stream](sm90_gemm_bf16_rules_args const& read) { return run(read, stream); };
  return static_cast<sm90_gemm_bf16_rules_status>(last_call.with_args(args, call));
}

sm90_gemm_bf16_rules_status sm90_gemm_bf16_rules_can_run(const sm90_gemm_bf16_rules_args* args) {
  return static_cast<sm90_gemm_bf16_rules_status>(last_call.probe(args, can_run));
}

sm90_gemm_bf16_rules_status sm90_gemm_bf16_rules_workspace_bytes(const sm90_gemm_bf16_rules_args* args, int64_t* bytes) {
  auto const call = [bytes](sm90_gemm_bf16_rules_args const& read) {
    return bytes == nullptr ? mmagen::Status::kNullArgs : workspace(read, *bytes);
  };
  return static_cast<sm90_gemm_bf16_rules_status>(last_call.with_args(args, call));
}

sm90_gemm_bf16_rules_status sm90_gemm_bf16_rules_query(sm90_gemm_bf16_rules_info* info) {
  return static_cast<sm90_gemm_bf16_rules_status>(last_call.with_info(info, query));
}

const char* sm90_gemm_bf16_rules_config_name(const sm90_gemm_bf16_rules_args* args) { return config_name(args); }

const char* sm90_gemm_bf16_rules_status_text(sm90_gemm_bf16_rules_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), kInterface);
}

const char* sm90_gemm_bf16_rules_error_text() { return last_call.text(kInterface); }

int sm90_gemm_bf16_rules_cuda_error() { return last_call.cuda_error; }

const char* sm90_gemm_bf16_rules_version() { return "0.1.0"; }

const char* sm90_gemm_bf16_rules_description() {
  return "{\"mmagen\": \"0.1.0\", \"interface\": 2, \"name\": \"sm90_gemm_bf16_rules\", \"kernel\": \"gemm\", \"arch\": [\""
         "sm_90a\"], \"spec_sha\": \"b81f3aafc1eeafd7\", \"a\": {\"type\": \"bf16\", \"contiguous\": \"K\"}, \"b\": {\"type\""
         ": \"bf16\", \"contiguous\": \"K\"}, \"d\": {\"type\": \"bf16\", \"contiguous\": \"N\"}, \"accumulator\": \"f32\", \"s"
         "calar\": \"f32\", \"shape\": null, \"workspace\": true, \"configs\": [\"small_m\", \"one_wave\", \"two_waves\","
         " \"large\"]}";
}
