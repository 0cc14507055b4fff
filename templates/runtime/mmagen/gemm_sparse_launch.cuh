// Host side of the GEMM with mma.sp: what it requires of its arguments beyond the requirements of the dense GEMM.
#pragma once

#include "gemm_launch.cuh"
#include "sparse_arguments.cuh"

namespace mmagen {
inline namespace v0_1 {

/// As run_gemm(). There is no check of the metadata themselves: see <name>_check_metadata.
template <class Config, class Args>
Status run_gemm_sparse(Args const& args, cudaStream_t stream, Launch launch = Launch::kYes) {
  Status const status = check_sparse_call<Config>(args);
  return status == Status::kSuccess ? run_gemm<Config>(args, stream, launch) : status;
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_gemm_sparse(Info& info) {
  return query_gemm<Config>(info);
}

}  // namespace v0_1
}  // namespace mmagen
