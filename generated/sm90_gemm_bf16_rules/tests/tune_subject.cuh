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

struct TuneSubject : Subject {
  // The library's own choice first, then each config.
  static std::vector<mmagen::test::NamedKernel> kernels() {
    using mmagen::test::Call;
    return {
        {"sm90_gemm_bf16_rules", [](Call const& call, cudaStream_t stream) { return run(call, stream); }},
        {"small_m",
         [](Call const& call, cudaStream_t stream) {
           sm90_gemm_bf16_rules_args const args = arguments(call);
           return static_cast<int>(sm90_gemm_bf16_rules::small_m::run(args, stream));
         }},
        {"one_wave",
         [](Call const& call, cudaStream_t stream) {
           sm90_gemm_bf16_rules_args const args = arguments(call);
           return static_cast<int>(sm90_gemm_bf16_rules::one_wave::run(args, stream));
         }},
        {"two_waves",
         [](Call const& call, cudaStream_t stream) {
           sm90_gemm_bf16_rules_args const args = arguments(call);
           return static_cast<int>(sm90_gemm_bf16_rules::two_waves::run(args, stream));
         }},
        {"large",
         [](Call const& call, cudaStream_t stream) {
           sm90_gemm_bf16_rules_args args = arguments(call);
           int64_t bytes = 0;
           mmagen::Status const status = sm90_gemm_bf16_rules::large::workspace(args, bytes);
           if (status != mmagen::Status::kSuccess) { return static_cast<int>(status); }
           give_workspace(bytes, &args);
           return static_cast<int>(sm90_gemm_bf16_rules::large::run(args, stream));
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
};
