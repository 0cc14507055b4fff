// SPDX-License-Identifier: MIT-0
// Each kernel of sm90_gemm_bf16_rules by name, for the program that verifies and times them.
#pragma once

#include <vector>

#include "mmagen/status.cuh"
#include "mmagen/tune_main.cuh"
#include "subject.cuh"

namespace sm90_gemm_bf16_rules::small_m {
mmagen::Status run(sm90_gemm_bf16_rules_args const& args, cudaStream_t stream);
}
namespace sm90_gemm_bf16_rules::one_wave {
mmagen::Status run(sm90_gemm_bf16_rules_args const& args, cudaStream_t stream);
}
namespace sm90_gemm_bf16_rules::two_waves {
mmagen::Status run(sm90_gemm_bf16_rules_args const& args, cudaStream_t stream);
}
namespace sm90_gemm_bf16_rules::large {
mmagen::Status run(sm90_gemm_bf16_rules_args const& args, cudaStream_t stream);
mmagen::Status workspace(sm90_gemm_bf16_rules_args const& args, int64_t& bytes);
}
namespace sm90_gemm_bf16_rules {
mmagen::Status copy_operands(sm90_gemm_bf16_rules_args& args, cudaStream_t stream);
int64_t copied_bytes(sm90_gemm_bf16_rules_args const& args);
}

struct TuneSubject : Subject {
  // The library's own choice first, then each config.
  static std::vector<mmagen::test::NamedKernel> kernels() {
    using mmagen::test::Call;
    return {
        {"sm90_gemm_bf16_rules", [](Call const& call, cudaStream_t stream) { return run(call, stream); }},
        {"small_m",
         [](Call const& call, cudaStream_t stream) {
           return run_config(call, stream, &sm90_gemm_bf16_rules::small_m::run, nullptr);
         }},
        {"one_wave",
         [](Call const& call, cudaStream_t stream) {
           return run_config(call, stream, &sm90_gemm_bf16_rules::one_wave::run, nullptr);
         }},
        {"two_waves",
         [](Call const& call, cudaStream_t stream) {
           return run_config(call, stream, &sm90_gemm_bf16_rules::two_waves::run, nullptr);
         }},
        {"large",
         [](Call const& call, cudaStream_t stream) {
           return run_config(call, stream, &sm90_gemm_bf16_rules::large::run, &sm90_gemm_bf16_rules::large::workspace);
         }},
    };
  }

  static char const* config_name(mmagen::test::Call const& call) {
    sm90_gemm_bf16_rules_args args = arguments(call);
    int64_t bytes = 0;
    sm90_gemm_bf16_rules_workspace_bytes(&args, &bytes);
    give_workspace(bytes, &args);  // as run() does: a kernel that could use one is predicted otherwise without
    return sm90_gemm_bf16_rules_config_name(&args);
  }

 private:
  // As the library does once it has chosen a config: with copies of operands, where these save time.
  // workspace: nullptr for a config that uses none.
  static int run_config(mmagen::test::Call const& call, cudaStream_t stream,
                        mmagen::Status (*launch)(sm90_gemm_bf16_rules_args const&, cudaStream_t),
                        mmagen::Status (*workspace)(sm90_gemm_bf16_rules_args const&, int64_t&)) {
    sm90_gemm_bf16_rules_args args = arguments(call);
    int64_t bytes = 0;
    mmagen::Status status = workspace == nullptr ? mmagen::Status::kSuccess : workspace(args, bytes);
    if (status != mmagen::Status::kSuccess) { return static_cast<int>(status); }
    give_workspace(bytes + sm90_gemm_bf16_rules::copied_bytes(args), &args);
    status = sm90_gemm_bf16_rules::copy_operands(args, stream);
    if (status != mmagen::Status::kSuccess) { return static_cast<int>(status); }
    return static_cast<int>(launch(args, stream));
  }
};
