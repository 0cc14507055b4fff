// sm90_gemm_tf32: which of its kernels a problem takes, behind the C interface.
#include "sm90_gemm_tf32/sm90_gemm_tf32.h"

#include "mmagen/choice.cuh"
#include "mmagen/status.cuh"

// The kernels, each in a translation unit of its own.
namespace sm90_gemm_tf32::mid {
mmagen::Status run(sm90_gemm_tf32_args const& args, cudaStream_t stream);
mmagen::Status query(sm90_gemm_tf32_info& info);
}
namespace sm90_gemm_tf32::large {
mmagen::Status run(sm90_gemm_tf32_args const& args, cudaStream_t stream);
mmagen::Status query(sm90_gemm_tf32_info& info);
mmagen::Status workspace(int64_t& bytes);
}

namespace {

// The first whose rule holds is taken; the last has none and takes all the rest.
constexpr mmagen::Candidate<sm90_gemm_tf32_args, sm90_gemm_tf32_info> kConfigs[] = {
    { "mid", mmagen::When().mn(1, 60000000), &sm90_gemm_tf32::mid::run, &sm90_gemm_tf32::mid::query,
      nullptr },
    { "large", mmagen::When(), &sm90_gemm_tf32::large::run, &sm90_gemm_tf32::large::query,
      &sm90_gemm_tf32::large::workspace },
};

}  // namespace

sm90_gemm_tf32_status sm90_gemm_tf32_run(const sm90_gemm_tf32_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM90_GEMM_TF32_INVALID_ARGUMENT; }
  auto const& chosen = mmagen::choose(kConfigs, args->m, args->n, args->k);
  return static_cast<sm90_gemm_tf32_status>(chosen.run(*args, stream));
}

const char* sm90_gemm_tf32_config_name(const sm90_gemm_tf32_args* args)
{
  return args == nullptr ? "" : mmagen::choose(kConfigs, args->m, args->n, args->k).name;
}

sm90_gemm_tf32_status sm90_gemm_tf32_query(sm90_gemm_tf32_info* info)
{
  if (info == nullptr) { return SM90_GEMM_TF32_INVALID_ARGUMENT; }
  return static_cast<sm90_gemm_tf32_status>(mmagen::query_all(kConfigs, *info));
}

sm90_gemm_tf32_status sm90_gemm_tf32_workspace_bytes(int64_t* bytes)
{
  if (bytes == nullptr) { return SM90_GEMM_TF32_INVALID_ARGUMENT; }
  return static_cast<sm90_gemm_tf32_status>(mmagen::workspace_of_all(kConfigs, *bytes));
}

const char* sm90_gemm_tf32_status_text(sm90_gemm_tf32_status status)
{
  return mmagen::status_text(static_cast<mmagen::Status>(status), "fixed shape: not a status of this kernel");
}
