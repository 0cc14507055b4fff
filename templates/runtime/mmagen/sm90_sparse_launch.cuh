// Host side of the sparse sm_90 GEMM: what it requires of its arguments beyond the requirements of the dense GEMM.
#pragma once

#include "sm90_launch.cuh"
#include "sparse_arguments.cuh"

namespace mmagen {
inline namespace v0_1 {

/// As run_sm90(); operands that TMA cannot address are refused. There is no check of the metadata themselves: see
/// <name>_check_metadata.
template <class Config, class Args>
Status run_sm90_sparse(Args const& args, cudaStream_t stream, Launch launch = Launch::kYes) {
  auto const refuse = [](CallArguments<Config> const& call, cudaStream_t, Launch) {
    return detail::refused_by_tma<Config>(call);
  };
  Status const status = check_sparse_call<CallOperands<Config>>(args);
  if (status != Status::kSuccess) { return status; }
  MemorySpan const metadata = {1, 0, args.batch, args.batch_stride_metadata_a, int(sizeof(uint32_t))};
  bool const are_read = args.m > 0 && args.n > 0 && args.k > 0;
  if (are_read && !tma_takes_strides(metadata)) { return Status::kFarApartTensor; }
  return run_sm90<Config>(args, stream, refuse, launch);
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_sm90_sparse(Info& info) {
  return query_sm90<Config>(info);
}

}  // namespace v0_1
}  // namespace mmagen
