// sm90_gemm_bf16_library: chooses one of its kernels for a problem, behind the C interface.
#include "sm90_gemm_bf16_library/sm90_gemm_bf16_library.h"

#include "mmagen/choice.cuh"
#include "mmagen/status.cuh"

// The kernels, each in a translation unit of its own.
namespace sm90_gemm_bf16_library::small_m {
mmagen::Status run(sm90_gemm_bf16_library_args const& args, cudaStream_t stream);
mmagen::Status query(sm90_gemm_bf16_library_info& info);
}
namespace sm90_gemm_bf16_library::one_wave {
mmagen::Status run(sm90_gemm_bf16_library_args const& args, cudaStream_t stream);
mmagen::Status query(sm90_gemm_bf16_library_info& info);
}
namespace sm90_gemm_bf16_library::two_waves {
mmagen::Status run(sm90_gemm_bf16_library_args const& args, cudaStream_t stream);
mmagen::Status query(sm90_gemm_bf16_library_info& info);
}
namespace sm90_gemm_bf16_library::large {
mmagen::Status run(sm90_gemm_bf16_library_args const& args, cudaStream_t stream);
mmagen::Status query(sm90_gemm_bf16_library_info& info);
mmagen::Status workspace(int64_t& bytes);
}

namespace {

// The first one whose rule holds is chosen; the last one is for all other problems.
constexpr mmagen::Candidate<sm90_gemm_bf16_library_args, sm90_gemm_bf16_library_info> kConfigs[] = {
    { "small_m", mmagen::When().m(1, 64), &sm90_gemm_bf16_library::small_m::run, &sm90_gemm_bf16_library::small_m::query,
      nullptr },
    { "one_wave", mmagen::When().mn(1, 1081344), &sm90_gemm_bf16_library::one_wave::run, &sm90_gemm_bf16_library::one_wave::query,
      nullptr },
    { "two_waves", mmagen::When().mn(1, 4325376), &sm90_gemm_bf16_library::two_waves::run, &sm90_gemm_bf16_library::two_waves::query,
      nullptr },
    { "large", mmagen::When(), &sm90_gemm_bf16_library::large::run, &sm90_gemm_bf16_library::large::query,
      &sm90_gemm_bf16_library::large::workspace },
};

}  // namespace

sm90_gemm_bf16_library_status sm90_gemm_bf16_library_run(const sm90_gemm_bf16_library_args* args, CUstream_st* stream) {
  if (args == nullptr) { return SM90_GEMM_BF16_LIBRARY_INVALID_ARGUMENT; }
  auto const& chosen = mmagen::choose(kConfigs, args->m, args->n, args->k);
  return static_cast<sm90_gemm_bf16_library_status>(chosen.run(*args, stream));
}

const char* sm90_gemm_bf16_library_config_name(const sm90_gemm_bf16_library_args* args) {
  return args == nullptr ? "" : mmagen::choose(kConfigs, args->m, args->n, args->k).name;
}

sm90_gemm_bf16_library_status sm90_gemm_bf16_library_query(sm90_gemm_bf16_library_info* info) {
  if (info == nullptr) { return SM90_GEMM_BF16_LIBRARY_INVALID_ARGUMENT; }
  return static_cast<sm90_gemm_bf16_library_status>(mmagen::query_all(kConfigs, *info));
}

sm90_gemm_bf16_library_status sm90_gemm_bf16_library_workspace_bytes(int64_t* bytes) {
  if (bytes == nullptr) { return SM90_GEMM_BF16_LIBRARY_INVALID_ARGUMENT; }
  return static_cast<sm90_gemm_bf16_library_status>(mmagen::workspace_of_all(kConfigs, *bytes));
}

const char* sm90_gemm_bf16_library_status_text(sm90_gemm_bf16_library_status status) {
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
